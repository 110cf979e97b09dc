"""Rows in, frozen domain objects out. The only SQL on our own data."""
