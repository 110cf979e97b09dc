"""HTTP, version 1: a database without an account."""
