"""Endpoints: creation, settings, start, suspend, connection strings."""
