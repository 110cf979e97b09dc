"""Whether a client's words may be said again to another member, when Postgres shut down instead of an answer.

A transaction that it had begun for them is undone then. So they may, if they are one transaction and not
more: statements that commit by themselves in between are none.
"""

from bough.gateway.pooling.translation import BIND, DESCRIBE, ENDS, EXECUTE, PARSE, QUERY, Translation
from bough.gateway.wire.sql import statements

_HEAD = 5
_IN_ONE_TRANSACTION = frozenset(
    ["begin", "delete", "insert", "merge", "select", "show", "start", "table", "update", "values", "with"]
)
_NONE = frozenset((DESCRIBE, EXECUTE))


def may_repeat(said: bytes, translation: Translation) -> bool:
    """Of whole messages."""
    at, parsed = 0, b""
    while at < len(said):
        kind, stop = said[at], at + 1 + int.from_bytes(said[at + 1 : at + _HEAD])
        body = said[at + _HEAD : stop]
        if kind in ENDS and stop != len(said):
            return False
        if kind == PARSE:
            parsed = body.split(b"\0", 2)[1]
            text: bytes | None = parsed
        elif kind == QUERY:
            text = body[:-1]
        elif kind == BIND:
            name = body.split(b"\0", 2)[1]
            text = translation.prepared.text(name) if name else parsed
        else:
            text = b"" if kind in _NONE or kind in ENDS else None
        if text is None or not _is_in_one_transaction(text):
            return False
        at = stop
    return True


def _is_in_one_transaction(text: bytes) -> bool:
    found = statements(text)
    return len(found) <= 1 and all(words[0] in _IN_ONE_TRANSACTION for words in found)
