"""Bough: a self-hosted Postgres platform."""

__version__ = "0.1.0"
