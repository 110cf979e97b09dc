"""Postgres installs: those on this machine, and the download of missing ones."""
