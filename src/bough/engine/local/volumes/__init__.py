"""Volumes: one folder per branch, created atomically."""
