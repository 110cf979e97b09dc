"""The requests that a server connection has not answered yet.

Postgres answers in order. Only replies that the gateway must handle have an entry: those that end a batch, and
those to Parse and Close, because the gateway sends some of these itself. After an error Postgres skips all
messages up to the next Sync. The entries of skipped messages are removed and their effects are undone.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from bough.gateway.pooling.expected_replies import (
    CALL,
    COPY_END,
    LAST_BATCH_END,
    QUERY,
    SYNC,
    ExpectedReply,
    ReplacementError,
    ReplyKind,
    Undo,
    is_change,
)
from bough.gateway.pooling.session_state import SessionState
from bough.gateway.pooling.statements import PreparedStatement, UnnamedStatement, encode_close
from bough.gateway.wire.rejections import StatementRejection

IDLE, IN_TRANSACTION, FAILED = b"ITE"
_PARSE_UNNAMED, _CLOSE_UNNAMED = ReplyKind.PARSE_UNNAMED, ReplyKind.CLOSE_UNNAMED
_STATEMENT_CHANGES = frozenset((ReplyKind.PARSE, _PARSE_UNNAMED, _CLOSE_UNNAMED))


class PendingReplies(SessionState):
    def __init__(self, max_statements: int) -> None:
        super().__init__(max_statements)
        self.expected: deque[ExpectedReply] = deque()
        self.status = IDLE
        self.unnamed_statement = UnnamedStatement()  # of the current client
        self.has_unnamed = False  # the session has it, or will have it when the next batch begins
        self.is_unsynced = False  # messages were sent that no Sync has followed
        # Called with the hash of the description. None: the gateway does not need it.
        self.describe_callbacks: deque[Callable[[bytes], None] | None] = deque()
        self.is_skipping = False  # Postgres skips all messages up to the next Sync
        self._has_bound = False  # since the last Sync
        self._is_copying = False
        self._change_count = 0  # entries that can be undone

    @property
    def is_free(self) -> bool:
        """No transaction is open and no reply is pending."""
        return self.status == IDLE and not self.expected and not self.is_unsynced

    @property
    def is_implicit_transaction(self) -> bool:
        """A statement bound now would be a transaction of its own."""
        has_begun = self._has_bound or any(kind <= LAST_BATCH_END for kind, _ in self.expected)
        return self.status == IDLE and not has_begun

    @property
    def has_known_statements(self) -> bool:
        """It is known which prepared statements exist."""
        has_undecided = any(entry[0] in _STATEMENT_CHANGES or entry is QUERY for entry in self.expected)
        return self._is_copying or not (self.describe_callbacks or has_undecided)

    @property
    def has_settled_batches(self) -> bool:
        """It is known what earlier batches did to statements.

        This does not matter within one batch: if a change is skipped, so is every message that relies on it.
        """
        if self._is_copying or not self._change_count:
            return True
        has_changed = False
        for entry in self.expected:
            if entry[0] <= LAST_BATCH_END and has_changed:
                return False
            has_changed = has_changed or is_change(entry)
        return True

    @property
    def is_parsing_unnamed(self) -> bool:
        """The next reply is for a Parse of the unnamed statement."""
        return bool(self.expected) and self.expected[0][0] is _PARSE_UNNAMED

    @property
    def is_replacing_unnamed(self) -> bool:
        """A Parse of the unnamed statement is pending, so messages sent now will use the new one."""
        return any(kind is _PARSE_UNNAMED for kind, _ in self.expected)

    def expect(self, entry: ExpectedReply) -> None:
        if not self.is_skipping:
            self.expected.append(entry)
            self._change_count += is_change(entry)
        elif callable(entry[1]):
            entry[1]()  # Postgres skips the message

    def expect_rejection(self, rejection: StatementRejection) -> None:
        self.expect((ReplyKind.REJECTED, ReplacementError(rejection.encode_error())))

    def expect_description(self, kind: ReplyKind, callback: Callable[[bytes], None] | None) -> None:
        self.describe_callbacks.append(callback)
        self.expect((kind, self._drop_describe_callback))

    def expect_unused_description(self) -> None:
        """Expect the description of a statement that only the client needs, so that no other statement gets it."""
        self.expect_description(ReplyKind.DESCRIBE, None)

    def _drop_describe_callback(self) -> None:
        self.describe_callbacks.popleft()

    def ensure_prepared(self, statement: PreparedStatement) -> bytes:
        """Return the messages to send so that the server connection holds this statement: often none."""
        if statement.name in self.statements:
            self.statements.move_to_end(statement.name)
            self._unused_resets = 0
            return b""
        closes = self.add_statement(statement)
        self.expect((ReplyKind.PARSE_OURS, partial(self.mark_stale, statement.name)))
        return closes + statement.encode_parse()

    def add_statement(self, statement: PreparedStatement) -> bytes:
        """Record the statement as held, and return the messages to send before its Parse."""
        closes = b""
        for name in self.store_statement(statement):
            self.expect((ReplyKind.CLOSE_OURS, partial(self.mark_stale, name)))
            closes += encode_close(name)
        return closes

    def mark_unsynced(self) -> None:
        self.is_unsynced = True

    def mark_bound(self) -> None:
        self.is_unsynced = self._has_bound = True

    def ignore_flush(self) -> None:
        """Do nothing: a Flush has no reply of its own and begins no batch."""

    def expect_unnamed_parse(self, statement: PreparedStatement) -> None:
        """Postgres never skips the first message of a batch, so the session will have what the client has."""
        self.has_unnamed = self.has_unnamed or not self.is_unsynced
        self.is_unsynced = True
        self.expect((_PARSE_UNNAMED, statement))

    def drop_unnamed(self) -> None:
        self.has_unnamed = False

    def expect_sync(self) -> None:
        self._has_bound = False
        if not self._is_copying:  # while copying, Postgres ignores it
            self.expected.append(SYNC)
            self.is_unsynced = self.is_skipping = False

    def end_copy(self) -> None:
        if self._is_copying:
            self._is_copying = False
        elif self.expected:
            self.expect(COPY_END)  # without a pending request Postgres ignores it

    # Replies.

    def complete_next(self) -> ReplyKind | None:
        """Handle ParseComplete or CloseComplete; return the kind of the request."""
        if not self.expected:
            return None
        entry = kind, subject = self.expected.popleft()
        self._change_count -= is_change(entry)
        if isinstance(subject, PreparedStatement):
            self.unnamed_statement.statement, self.has_unnamed = subject, True
        elif kind is _CLOSE_UNNAMED:
            self.unnamed_statement.statement = None
        return kind

    def complete_deallocate(self) -> None:
        if self.expected and self.expected[0][0] is ReplyKind.DEALLOCATE:
            self._change_count -= is_change(self.expected.popleft())

    def on_error(self) -> None:
        self._is_copying = False
        if self.is_parsing_unnamed:  # a failed Parse drops the old unnamed statement too
            self.unnamed_statement.statement = None
        if not self._undo_skipped():
            self.is_skipping = True

    def on_ready(self, status: int) -> None:
        expected = self.expected
        if expected and expected[0][0] > LAST_BATCH_END:
            self._undo_skipped()
        if expected and expected.popleft() is QUERY:
            self.unnamed_statement.statement = None
        while expected and expected[0] is COPY_END:  # of data that Postgres ignores
            expected.popleft()
        self.is_skipping = self._is_copying = False
        self.status = status

    def on_copy_in(self) -> None:
        """Postgres reads COPY data from now on, and ignores a Sync that comes before its end."""
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
        """Undo all pending requests: Postgres has read none of them."""
        undone = [undo for _, undo in self.expected if callable(undo)]
        self.expected.clear()
        self._change_count = 0
        for undo in reversed(undone):
            undo()

    def _undo_skipped(self) -> bool:
        """Undo the rest of the batch; return whether its end was sent already."""
        expected = self.expected
        undone: list[Undo] = []
        skips_query = False
        while expected and (expected[0][0] > LAST_BATCH_END or (skips_query and expected[0] in (QUERY, CALL))):
            entry = expected.popleft()
            self._change_count -= is_change(entry)
            skips_query = skips_query or entry[0] is ReplyKind.SENTINEL
            if callable(entry[1]):
                undone.append(entry[1])
        self.is_unsynced = self.is_unsynced or (skips_query and not expected)
        for undo in reversed(undone):
            undo()
        return bool(expected)
