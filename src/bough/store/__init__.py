"""The platform's own data: rows in, frozen domain objects out. No other package runs SQL on it."""
