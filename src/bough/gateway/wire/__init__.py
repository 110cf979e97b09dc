"""The Postgres protocol as bytes in and bytes out, without I/O, waiting or clocks."""
