"""What a member was asked and has not answered yet.

Postgres answers in order. Only answers that we must treat have an entry: those that end a batch, and those
to Parse and Close, because some of these we sent ourselves. After an error Postgres skips what follows up
to the next Sync; the entries of what it skipped are void, and what they did is undone.
"""

from collections import deque
from collections.abc import Callable

from bough.gateway.pooling.awaited import CALL, COPY_END, QUERY, SYNC, ExpectedReply, ReplacementError, ReplyKind, Undo
from bough.gateway.pooling.session_state import SessionState
from bough.gateway.pooling.statements import PreparedStatement
from bough.gateway.pooling.unnamed import UnnamedStatement
from bough.gateway.wire.rejections import StatementRejection

IDLE, IN_TRANSACTION, FAILED = b"ITE"
_LAST_END = ReplyKind.QUERY  # of those that end a batch
_PARSE_UNNAMED, _CLOSE_UNNAMED = ReplyKind.PARSE_UNNAMED, ReplyKind.CLOSE_UNNAMED
_DECIDING = frozenset((ReplyKind.PARSE, _PARSE_UNNAMED, _CLOSE_UNNAMED))  # which statements there are
_ASKING = frozenset((ReplyKind.DESCRIBE, ReplyKind.DESCRIBE_OURS))


class PendingReplies(SessionState):
    def __init__(self, max_statements: int) -> None:
        super().__init__(max_statements)
        self.expected: deque[ExpectedReply] = deque()
        self.status = IDLE
        self.unnamed_statement = UnnamedStatement()  # of the client of now
        self.has_unnamed = False  # so it is in this session, or will be when the next batch begins
        self.is_unsynced = False  # something was sent that no Sync has followed
        self.describe_callbacks: deque[Callable[[bytes], None]] = deque()  # who is told the columns that are asked for
        self.is_skipping = False  # Postgres reads over everything up to the next Sync
        self._has_bound = False  # since the last Sync
        self._is_copying = False
        self._changes = 0  # entries that would be undone

    @property
    def is_free(self) -> bool:
        """No transaction is open and nothing is under way."""
        return self.status == IDLE and not self.expected and not self.is_unsynced

    @property
    def is_implicit_transaction(self) -> bool:
        """What is bound now would be a transaction by itself."""
        is_begun = self._has_bound or any(kind <= _LAST_END for kind, _ in self.expected)
        return self.status == IDLE and not is_begun

    @property
    def has_known_statements(self) -> bool:
        """It is known which statements there are."""
        is_undecided = any(entry[0] in _DECIDING or entry is QUERY for entry in self.expected)
        return self._is_copying or not (self.describe_callbacks or is_undecided)

    @property
    def has_settled_batches(self) -> bool:
        """What earlier batches did about statements is known. Within one batch nobody needs to know it.

        If that turns out to be skipped, so is whatever uses it.
        """
        if self._is_copying or not self._changes:
            return True
        has_changed = False
        for entry in self.expected:
            if entry[0] <= _LAST_END and has_changed:
                return False
            has_changed = has_changed or _is_change(entry)
        return True

    @property
    def is_parsing_unnamed(self) -> bool:
        """That is the next thing it answers."""
        return bool(self.expected) and self.expected[0][0] is _PARSE_UNNAMED

    @property
    def is_replacing_unnamed(self) -> bool:
        """Another unnamed statement is on its way, and what uses one now will use that."""
        return any(kind is _PARSE_UNNAMED for kind, _ in self.expected)

    def expect(self, entry: ExpectedReply) -> None:
        if not self.is_skipping:
            self.expected.append(entry)
            self._changes += _is_change(entry)
        elif callable(entry[1]):
            entry[1]()  # Postgres does not read it

    def expect_rejection(self, rejection: StatementRejection) -> None:
        self.expect((ReplyKind.REJECTED, ReplacementError(rejection.encode_error())))

    def expect_description(self, kind: ReplyKind, callback: Callable[[bytes], None]) -> None:
        self.describe_callbacks.append(callback)
        self.expect((kind, self._drop_describe_callback))

    def _drop_describe_callback(self) -> None:
        self.describe_callbacks.popleft()

    def mark_unsynced(self) -> None:
        self.is_unsynced = True

    def mark_bound(self) -> None:
        self.is_unsynced = self._has_bound = True

    def ignore_flush(self) -> None:
        """Postgres says what it has to say; nothing begins with that."""

    def expect_unnamed_parse(self, statement: PreparedStatement) -> None:
        """What comes first in a batch is read; so whatever becomes of it, the session will have what the client has."""
        self.has_unnamed = self.has_unnamed or not self.is_unsynced
        self.is_unsynced = True
        self.expect((_PARSE_UNNAMED, statement))

    def drop_unnamed(self) -> None:
        self.has_unnamed = False

    def expect_sync(self) -> None:
        self._has_bound = False
        if not self._is_copying:  # then Postgres reads over it
            self.expected.append(SYNC)
            self.is_unsynced = self.is_skipping = False

    def end_copy(self) -> None:
        if self._is_copying:
            self._is_copying = False
        elif self.expected:
            self.expect(COPY_END)  # else nobody reads it

    # Answers.

    def complete_next(self) -> ReplyKind | None:
        """A Parse or a Close is done: which."""
        if not self.expected:
            return None
        entry = kind, about = self.expected.popleft()
        self._changes -= _is_change(entry)
        if isinstance(about, PreparedStatement):
            self.unnamed_statement.statement, self.has_unnamed = about, True
        elif kind is _CLOSE_UNNAMED:
            self.unnamed_statement.statement = None
        return kind

    def complete_deallocate(self) -> None:
        if self.expected and self.expected[0][0] is ReplyKind.DEALLOCATE:
            self._changes -= _is_change(self.expected.popleft())

    def on_error(self) -> None:
        self._is_copying = False
        if self.is_parsing_unnamed:  # it has taken the other's place all the same
            self.unnamed_statement.statement = None
        if not self._undo_skipped():
            self.is_skipping = True

    def on_ready(self, status: int) -> None:
        expected = self.expected
        if expected and expected[0][0] > _LAST_END:
            self._undo_skipped()
        if expected and expected.popleft() is QUERY:
            self.unnamed_statement.statement = None
        while expected and expected[0] is COPY_END:  # of data that nobody reads
            expected.popleft()
        self.is_skipping = self._is_copying = False
        self.status = status

    def on_copy_in(self) -> None:
        """Postgres reads data now; a Sync that comes before their end is read over."""
        expected = self.expected
        while expected and expected[0] is SYNC:
            expected.popleft()
            self.is_unsynced = True
        if COPY_END in expected:
            expected.remove(COPY_END)
            self.is_unsynced = self.is_unsynced and SYNC not in expected
        else:
            self._is_copying = True

    def undo_all(self) -> None:
        """Postgres has read nothing of it."""
        undone = [undo for _, undo in self.expected if callable(undo)]
        self.expected.clear()
        self._changes = 0
        for undo in reversed(undone):
            undo()

    def _undo_skipped(self) -> bool:
        """Whether the end of the batch is awaited already."""
        expected = self.expected
        undone: list[Undo] = []
        skips_query = False
        while expected and (expected[0][0] > _LAST_END or (skips_query and expected[0] in (QUERY, CALL))):
            entry = expected.popleft()
            self._changes -= _is_change(entry)
            skips_query = skips_query or entry[0] is ReplyKind.SENTINEL
            if callable(entry[1]):
                undone.append(entry[1])
        self.is_unsynced = self.is_unsynced or (skips_query and not expected)
        for undo in reversed(undone):
            undo()
        return bool(expected)


def _is_change(entry: ExpectedReply) -> bool:
    return callable(entry[1]) and entry[0] not in _ASKING
