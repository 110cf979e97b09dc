"""Whether a client's words may be said again to another member, when Postgres shut down instead of an answer.

A transaction that it had begun for them is undone then. So they may, if they are one transaction and not
more: statements that commit by themselves in between are none.
"""

from bough.gateway.pooling.translation import BATCH_ENDS, BIND, DESCRIBE, EXECUTE, PARSE, QUERY, MessageTranslator
from bough.gateway.wire.sql import split_statements

_HEAD = 5
_IN_ONE_TRANSACTION = frozenset(
    ["begin", "delete", "insert", "merge", "select", "show", "start", "table", "update", "values", "with"]
)
_NONE = frozenset((DESCRIBE, EXECUTE))


def is_single_transaction(data: bytes, translation: MessageTranslator) -> bool:
    """Of whole messages."""
    at, parsed = 0, b""
    while at < len(data):
        kind, stop = data[at], at + 1 + int.from_bytes(data[at + 1 : at + _HEAD])
        body = data[at + _HEAD : stop]
        if kind in BATCH_ENDS and stop != len(data):
            return False
        if kind == PARSE:
            parsed = body.split(b"\0", 2)[1]
            text: bytes | None = parsed
        elif kind == QUERY:
            text = body[:-1]
        elif kind == BIND:
            name = body.split(b"\0", 2)[1]
            text = translation.prepared.get_text(name) if name else parsed
        else:
            text = b"" if kind in _NONE or kind in BATCH_ENDS else None
        if text is None or not _is_in_one_transaction(text):
            return False
        at = stop
    return True


def _is_in_one_transaction(text: bytes) -> bool:
    found = split_statements(text)
    return len(found) <= 1 and all(words[0] in _IN_ONE_TRANSACTION for words in found)
