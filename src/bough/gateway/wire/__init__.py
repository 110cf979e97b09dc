"""The Postgres protocol as bytes in and bytes out; nothing here waits or looks at a clock."""
