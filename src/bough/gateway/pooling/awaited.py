"""Answers that are awaited from Postgres and that we must treat."""

from collections.abc import Callable
from enum import IntEnum

from bough.gateway.pooling.statements import Statement


class Awaited(IntEnum):
    SYNC = 1  # ready, after Sync
    QUERY = 2  # ready, after a simple query or a function call
    COPY_END = 3  # nothing: the client's data ends here
    PARSE = 4  # goes on to the client
    PARSE_OURS = 5  # is ours
    CLOSE = 6
    CLOSE_OURS = 7
    SENTINEL = 8  # a Close of ours: what stands before it went well
    REFUSED = 9  # an error, for which the client gets our words
    DESCRIBE = 10
    DESCRIBE_OURS = 11
    DEALLOCATE = 12  # a command's end
    PARSE_UNNAMED = 13
    CLOSE_UNNAMED = 14


class Words:
    """Of a refusal."""

    __slots__ = ("error",)

    def __init__(self, error: bytes) -> None:
        self.error = error


Undo = Callable[[], None]
Entry = tuple[Awaited, Undo | Words | Statement | None]  # and how to undo it, or what it is about

SYNC: Entry = (Awaited.SYNC, None)
QUERY: Entry = (Awaited.QUERY, None)
CALL: Entry = (Awaited.QUERY, None)  # an object of its own: it does not end the unnamed statement
COPY_END: Entry = (Awaited.COPY_END, None)
CLOSE: Entry = (Awaited.CLOSE, None)
CLOSE_UNNAMED: Entry = (Awaited.CLOSE_UNNAMED, None)
CLOSE_OURS: Entry = (Awaited.CLOSE_OURS, None)
SENTINEL: Entry = (Awaited.SENTINEL, None)
PARSE_OURS: Entry = (Awaited.PARSE_OURS, None)
