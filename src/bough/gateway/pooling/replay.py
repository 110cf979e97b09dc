"""Decides whether a client's messages can be sent again, to another server connection."""

from bough.gateway.pooling.frontend_messages import BATCH_ENDS, BIND, DESCRIBE, EXECUTE, PARSE, QUERY
from bough.gateway.pooling.prepared import ClientStatements
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.sql import split_statements

# The first words of statements that do not commit by themselves.
_SINGLE_TRANSACTION_WORDS = frozenset(
    ["begin", "delete", "insert", "merge", "select", "show", "start", "table", "update", "values", "with"]
)
_WITHOUT_TEXT = frozenset((DESCRIBE, EXECUTE, *BATCH_ENDS))


def is_single_transaction(data: bytes, prepared: ClientStatements) -> bool:
    """Whether these messages are one transaction, and so can be sent again if Postgres shut down before a reply.

    Postgres has then rolled the transaction back, unless a statement commits by itself.
    """
    at, parsed = 0, b""
    while at < len(data):
        kind, stop = data[at], at + 1 + int.from_bytes(data[at + 1 : at + HEADER_LENGTH])
        body = data[at + HEADER_LENGTH : stop]
        if kind in BATCH_ENDS and stop != len(data):
            return False
        if kind == PARSE:
            parsed = body.split(b"\0", 2)[1]
            text: bytes | None = parsed
        elif kind == QUERY:
            text = body[:-1]
        elif kind == BIND:
            name = body.split(b"\0", 2)[1]
            text = prepared.get_text(name) if name else parsed
        else:
            text = b"" if kind in _WITHOUT_TEXT else None
        if text is None or not _has_single_transaction(text):
            return False
        at = stop
    return True


def _has_single_transaction(text: bytes) -> bool:
    statements = split_statements(text)
    return len(statements) <= 1 and all(words[0] in _SINGLE_TRANSACTION_WORDS for words in statements)
