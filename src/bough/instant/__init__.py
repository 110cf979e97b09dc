"""Version 1 of the HTTP API: databases without an account."""
