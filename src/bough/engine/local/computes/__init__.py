"""Computes: start, find, query and stop Postgres servers."""
