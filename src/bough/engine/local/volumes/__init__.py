"""Volumes: one folder a branch, made whole or not at all."""
