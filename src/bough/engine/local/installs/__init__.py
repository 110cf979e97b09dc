"""Postgres builds: which are on this machine, and how missing ones are fetched."""
