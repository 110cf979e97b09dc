"""Recognizes statements that create temporary objects, which end with their session."""

import re
from itertools import pairwise, takewhile

from bough.gateway.wire.sql import is_identifier, unquote_identifier

_TEMPORARY = re.compile(r'temp(?:orary)?[ \t\n\r\f\v"/-]')
_BEFORE_TEMPORARY = ("create", "replace", "local", "global", "into", "*/")
_NOT_A_TABLE = frozenset("from where group having window union intersect except order limit offset fetch for".split())


def may_be_temporary(low: str) -> bool:
    """Check a text in lower case fast: many words contain `temp`, but few texts contain CREATE TEMP or INTO TEMP."""
    at = low.find("temp")
    while at >= 0:
        if low[at - 3 : at] == "pg_":
            return True
        if _TEMPORARY.match(low, at):
            before = low[max(at - 40, 0) : at].rstrip()
            if before.endswith(_BEFORE_TEMPORARY) or (at > 40 and len(before) < 8) or "--" in low:
                return True
        at = low.find("temp", at + 4)
    return False


def creates_temporary(words: list[str]) -> bool:
    """`words` follow CREATE."""
    start = list(takewhile(lambda word: word not in ("(", "as"), words))
    return _is_temporary([word for word in start[:5] if word not in ("or", "replace")]) or _names_temporary_schema(
        start
    )


def selects_into_temporary(words: list[str]) -> bool:
    for at, word in enumerate(words):
        if word == "into" and words[at - 1] not in ("insert", "merge"):
            table = words[at + 1 : at + 4]
            if _is_temporary(table) or _names_temporary_schema(table[:2]):
                return True
    return False


def _is_temporary(words: list[str]) -> bool:
    """Whether the words begin with the keyword and not with a table of that name."""
    kind, *rest = [word for word in words if word not in ("local", "global")] or [""]
    return kind in ("temp", "temporary") and rest != [] and is_identifier(rest[0]) and rest[0] not in _NOT_A_TABLE


def _names_temporary_schema(words: list[str]) -> bool:
    return any(unquote_identifier(word) == "pg_temp" and sign == "." for word, sign in pairwise(words))


def drops_on_commit(words: list[str]) -> bool:
    return ("on", "commit", "drop") in zip(words, words[1:], words[2:], strict=False)
