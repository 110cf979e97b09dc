"""Proving who one is, as bytes in and bytes out."""
