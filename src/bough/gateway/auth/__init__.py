"""Password authentication, as bytes in and bytes out."""
