"""Bough: a self-hosted Postgres platform."""

__version__ = "0.2.0"
