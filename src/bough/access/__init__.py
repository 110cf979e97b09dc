"""Authentication and authorization: API keys, passwords, sealed secrets, access levels, checked lookups."""
