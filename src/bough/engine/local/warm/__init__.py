"""Computes that run already and wait for a project."""
