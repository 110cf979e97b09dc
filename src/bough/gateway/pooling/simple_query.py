"""Translates simple queries, function calls and COPY messages of a client for its server connection.

A query that must not run is replaced by one that Postgres rejects.
"""

from bough.gateway.pooling import expected_replies, statements
from bough.gateway.pooling.expected_replies import ReplyKind
from bough.gateway.pooling.frontend_messages import Data, MessageSpan
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.prepared import ClientStatements
from bough.gateway.pooling.statements import (
    UNUSED_NAME,
    StatementCatalog,
    UnnamedStatement,
    encode_close,
    encode_empty_statement,
    encode_query,
)
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.session_effects import NO_EFFECTS, SessionEffects, find_session_effects


class SimpleQueryTranslator:
    __slots__ = ("discards_rest", "is_waiting", "prepared", "unnamed_statement")

    def __init__(self, catalog: StatementCatalog) -> None:
        self.prepared = ClientStatements(catalog)
        self.unnamed_statement = UnnamedStatement()
        self.discards_rest = False  # the part of the last message still to come is not forwarded
        self.is_waiting = False  # the last message must be translated again when its replacement has been answered

    def query(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        if pending.is_skipping:
            return None  # Postgres skips it
        data, at, stop, limit = span
        effects = find_session_effects(
            bytes(data[at + HEADER_LENGTH : min(stop - 1, limit)]), is_transaction=pending.is_free
        )
        if effects.deallocates and self._must_wait(pending):
            return statements.FLUSH
        prefix = _encode_sentinel(pending) if pending.is_unsynced else b""
        if effects is not NO_EFFECTS:
            if effects.rejection is not None:
                self.discards_rest = limit < stop
                pending.expect_rejection(effects.rejection)
                pending.expect(expected_replies.QUERY)
                return prefix + encode_query(effects.rejection.failing_sql())
            prefix += self._record_effects(effects, pending, runs=True)
        pending.expect(expected_replies.QUERY)
        return prefix + data[at:limit] if prefix else None

    def call(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        if pending.is_skipping:
            return None
        data, at, _, limit = span
        prefix = _encode_sentinel(pending) if pending.is_unsynced else b""
        pending.expect(expected_replies.CALL)
        return prefix + data[at:limit] if prefix else None

    def copy_data(self, _span: MessageSpan, _pending: PendingReplies) -> None:
        return None

    def copy_end(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.end_copy()

    def _must_wait(self, pending: PendingReplies) -> bool:
        """Whether it is not known yet which statements exist, because of pending replies."""
        self.is_waiting = not pending.has_settled_batches
        return self.is_waiting

    def _record_effects(self, effects: SessionEffects, pending: PendingReplies, *, runs: bool) -> bytes:
        """Record the effects of a query, which is run now if `runs`; return the messages to send before it."""
        pending.record_effects(effects)
        deallocated = [(name, self.prepared.forget(name)) for name in effects.deallocates]
        prefix = b""
        for name, undo in deallocated:
            if undo is not None:
                prefix += encode_empty_statement(name)
                pending.expect((ReplyKind.CLOSE_OURS, None if runs else undo))
                pending.expect(expected_replies.PARSE_OURS)
                pending.is_dirty = pending.has_sql_prepared = True  # it may be skipped
        for _, undo in deallocated if runs else ():
            pending.expect((ReplyKind.DEALLOCATE, undo))
        return prefix


def _encode_sentinel(pending: PendingReplies) -> bytes:
    """Return a Close to send before a simple query that follows extended ones without a Sync.

    If one of them fails, Postgres skips the query too, and the missing reply shows that.
    """
    pending.is_unsynced = False
    pending.expect(expected_replies.SENTINEL)
    return encode_close(UNUSED_NAME)
