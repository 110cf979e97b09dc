"""Instant databases: creation, prepared databases, claims."""
