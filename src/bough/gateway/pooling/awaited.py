"""Answers that are awaited from Postgres and that we must treat."""

from collections.abc import Callable
from enum import IntEnum

from bough.gateway.pooling.statements import PreparedStatement


class ReplyKind(IntEnum):
    SYNC = 1  # ready, after Sync
    QUERY = 2  # ready, after a simple query or a function call
    COPY_END = 3  # nothing: the client's data ends here
    PARSE = 4  # goes on to the client
    PARSE_OURS = 5  # is ours
    CLOSE = 6
    CLOSE_OURS = 7
    SENTINEL = 8  # a Close of ours: what stands before it went well
    REJECTED = 9  # an error, for which the client gets our words
    DESCRIBE = 10
    DESCRIBE_OURS = 11
    DEALLOCATE = 12  # a command's end
    PARSE_UNNAMED = 13
    CLOSE_UNNAMED = 14


class ReplacementError:
    """Of a refusal."""

    __slots__ = ("error",)

    def __init__(self, error: bytes) -> None:
        self.error = error


Undo = Callable[[], None]
ExpectedReply = tuple[
    ReplyKind, Undo | ReplacementError | PreparedStatement | None
]  # and how to undo it, or what it is about

SYNC: ExpectedReply = (ReplyKind.SYNC, None)
QUERY: ExpectedReply = (ReplyKind.QUERY, None)
CALL: ExpectedReply = (ReplyKind.QUERY, None)  # an object of its own: it does not end the unnamed statement
COPY_END: ExpectedReply = (ReplyKind.COPY_END, None)
CLOSE: ExpectedReply = (ReplyKind.CLOSE, None)
CLOSE_UNNAMED: ExpectedReply = (ReplyKind.CLOSE_UNNAMED, None)
CLOSE_OURS: ExpectedReply = (ReplyKind.CLOSE_OURS, None)
SENTINEL: ExpectedReply = (ReplyKind.SENTINEL, None)
PARSE_OURS: ExpectedReply = (ReplyKind.PARSE_OURS, None)
