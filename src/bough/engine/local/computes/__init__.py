"""Running Postgres: start it, find it again, talk to it, stop it."""
