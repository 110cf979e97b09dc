"""Version 2 of the HTTP API."""
