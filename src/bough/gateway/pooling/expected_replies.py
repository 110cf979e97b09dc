"""The replies that the gateway expects from Postgres: their kinds, and the entries of `PendingReplies`.

An entry has a subject: how to undo the request if Postgres skips it, the error that replaces the one of Postgres, or
the unnamed statement of a Parse.
"""

from collections.abc import Callable
from enum import IntEnum

from bough.gateway.pooling.statements import PreparedStatement


class ReplyKind(IntEnum):
    SYNC = 1  # ReadyForQuery after a Sync
    QUERY = 2  # ReadyForQuery after a simple query or a function call
    COPY_END = 3  # no reply: the client's COPY data ends here
    PARSE = 4  # forwarded to the client
    PARSE_OURS = 5  # not forwarded
    CLOSE = 6
    CLOSE_OURS = 7
    SENTINEL = 8  # a Close of ours whose reply proves that everything before it succeeded
    REJECTED = 9  # an error, replaced by the gateway's own
    DESCRIBE = 10
    DESCRIBE_OURS = 11
    DEALLOCATE = 12  # CommandComplete
    PARSE_UNNAMED = 13
    CLOSE_UNNAMED = 14


class ReplacementError:
    """The error that the client gets instead of the one from Postgres."""

    __slots__ = ("error",)

    def __init__(self, error: bytes) -> None:
        self.error = error


Undo = Callable[[], None]
ExpectedReply = tuple[ReplyKind, Undo | ReplacementError | PreparedStatement | None]

SYNC: ExpectedReply = (ReplyKind.SYNC, None)
QUERY: ExpectedReply = (ReplyKind.QUERY, None)
CALL: ExpectedReply = (ReplyKind.QUERY, None)  # a separate object: a call does not end the unnamed statement
COPY_END: ExpectedReply = (ReplyKind.COPY_END, None)
CLOSE: ExpectedReply = (ReplyKind.CLOSE, None)
CLOSE_UNNAMED: ExpectedReply = (ReplyKind.CLOSE_UNNAMED, None)
CLOSE_OURS: ExpectedReply = (ReplyKind.CLOSE_OURS, None)
SENTINEL: ExpectedReply = (ReplyKind.SENTINEL, None)
PARSE_OURS: ExpectedReply = (ReplyKind.PARSE_OURS, None)

LAST_BATCH_END = ReplyKind.QUERY  # kinds up to this one end a batch
_DESCRIPTIONS = frozenset((ReplyKind.DESCRIBE, ReplyKind.DESCRIBE_OURS))


def is_change(entry: ExpectedReply) -> bool:
    """Whether the request changes which statements exist, and can be undone."""
    return callable(entry[1]) and entry[0] not in _DESCRIPTIONS
