"""What people chose as names, safe to show in a cell of a table."""

from bough.cli import escapes


def plain(text: str) -> str:
    return escapes.escaped_line(text)
