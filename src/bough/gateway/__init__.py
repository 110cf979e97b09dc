"""The Postgres door: who comes in, where to, and the bytes between."""
