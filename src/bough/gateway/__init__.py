"""The Postgres gateway: terminates TLS, authenticates clients, and connects them to computes."""
