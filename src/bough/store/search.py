"""Finding things by a part of what they are called."""


def like_pattern(text: str) -> str:
    """A pattern for LIKE, with `\\` as its escape, over keys that were folded when they were written."""
    escaped = text.casefold().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
