"""Translates the messages of a client for the server connection that serves it.

Prepared statements get names of the gateway's own, and a statement that the server connection does not have is
prepared first. A query that must not run is replaced by one that Postgres rejects.
"""

from collections.abc import Callable, Mapping

from bough.gateway.pooling import pending_replies, statements
from bough.gateway.pooling.pending_replies import PendingReplies, ReplyKind
from bough.gateway.pooling.prepared import MAX_STATEMENT_BYTES, ClientStatements, encode_rejection
from bough.gateway.pooling.statements import (
    UNUSED_NAME,
    PreparedStatement,
    StatementCatalog,
    UnnamedStatement,
    encode_close,
    encode_describe,
    encode_empty_statement,
    encode_query,
)
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.rejections import StatementRejection
from bough.gateway.wire.session_effects import NO_EFFECTS, SessionEffects, find_session_effects

BIND, CALL, CLOSE, COPY_DATA, COPY_DONE, COPY_FAIL, DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC = b"BFCdcfDEHPQS"
BATCH_ENDS = frozenset((CALL, QUERY, SYNC))
COPY_MESSAGES = frozenset((COPY_DATA, COPY_DONE, COPY_FAIL))
STREAMABLE = frozenset((BIND, CALL, COPY_DATA, PARSE, QUERY))
_STATEMENT = b"S"[0]
_TOO_LARGE = StatementRejection(
    sqlstate="54000",
    message=f"a named prepared statement may be at most {MAX_STATEMENT_BYTES >> 20} MB long on a pooled host",
    hint="Prepare it without a name, or use the direct host: the same name without -pooler.",
)

Data = bytes | bytearray
MessageSpan = tuple[Data, int, int, int]  # the start and end of a message, and the end of its received part


class MessageTranslator:
    __slots__ = ("discards_rest", "is_waiting", "prepared", "unnamed_statement")

    def __init__(self, catalog: StatementCatalog) -> None:
        self.prepared = ClientStatements(catalog)
        self.unnamed_statement = UnnamedStatement()
        self.discards_rest = False  # the part of the last message still to come is not forwarded
        self.is_waiting = False  # the last message must be translated again when its replacement has been answered

    def translate(self, kind: int, span: MessageSpan, pending: PendingReplies) -> Data | None:
        """Return the replacement for a message; None: forward it unchanged."""
        try:
            return HANDLERS[kind](self, span, pending)
        except (ValueError, IndexError) as error:  # a name is not terminated
            raise ProtocolError("a message is not terminated correctly") from error

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
                pending.expect(pending_replies.QUERY)
                return prefix + encode_query(effects.rejection.failing_sql())
            prefix += self._record_effects(effects, pending, runs=True)
        pending.expect(pending_replies.QUERY)
        return prefix + data[at:limit] if prefix else None

    def call(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        if pending.is_skipping:
            return None
        data, at, _, limit = span
        prefix = _encode_sentinel(pending) if pending.is_unsynced else b""
        pending.expect(pending_replies.CALL)
        return prefix + data[at:limit] if prefix else None

    def parse(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        data, at, stop, limit = span
        end = data.index(0, at + HEADER_LENGTH, limit)
        body = bytes(data[end + 1 : limit])
        name = bytes(data[at + HEADER_LENGTH : end])
        if pending.is_skipping and not name:
            return None
        effects = find_session_effects(body.partition(b"\0")[0], is_transaction=not name and pending.is_free)
        if (name or effects.deallocates) and self._must_wait(pending):
            return statements.FLUSH
        rejection = effects.rejection or (_TOO_LARGE if name and limit < stop else None)
        self.discards_rest = limit < stop and (rejection is not None or bool(name))
        if rejection is not None:
            pending.is_unsynced = True
            return encode_rejection(rejection, pending)
        prefix = b"" if effects is NO_EFFECTS else self._record_effects(effects, pending, runs=False)
        if name:
            pending.is_unsynced = True
            parse = prefix + self.prepared.parse(name, body, effects, pending)
            self.is_waiting, self.prepared.is_waiting = self.prepared.is_waiting, False
            return parse
        if pending.is_unsynced:
            # A failed Parse drops the old unnamed statement, a skipped one does not. A Close of ours goes first: it
            # cannot fail, so its reply shows that the Parse is not skipped.
            pending.expect(pending_replies.CLOSE_OURS)
            prefix += encode_close(UNUSED_NAME)
        pending.expect_unnamed_parse(PreparedStatement(b"", body if limit == stop else b"", effects))
        return prefix + data[at:limit] if prefix else None

    def accept_batch(self, statement: bytes, pending: PendingReplies) -> bool:
        """Record a batch of `parse_simple_batch`; return whether it can be forwarded unchanged."""
        if (
            pending.is_unsynced
            or find_session_effects(statement.partition(b"\0")[0], is_transaction=pending.is_free) is not NO_EFFECTS
        ):
            return False
        pending.expect_unnamed_parse(PreparedStatement(b"", statement, NO_EFFECTS))
        pending.expect_sync()
        return True

    def bind(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        data, at, stop, limit = span
        begin = data.index(0, at + HEADER_LENGTH, limit) + 1
        end = data.index(0, begin, limit)
        pending.is_unsynced = True
        if end == begin:
            prefix = self._use_unnamed(pending)
            if self.is_waiting:
                return prefix
            pending.mark_bound()
            return prefix + data[at:limit] if prefix else None
        if self._must_wait(pending):
            return statements.FLUSH
        client_name = bytes(data[begin:end])
        prefix, name = self.prepared.use(client_name, pending)
        self.is_waiting, self.prepared.is_waiting = self.prepared.is_waiting, False
        if self.is_waiting:
            return prefix
        pending.mark_bound()
        length = (stop - at - 1 + len(name) - (end - begin)).to_bytes(4)
        return b"".join((prefix, b"B", length, data[at + HEADER_LENGTH : begin], name, data[end:limit]))

    def describe(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        data, at, stop, _ = span
        pending.is_unsynced = True
        if data[at + HEADER_LENGTH] != _STATEMENT:
            return None
        client_name = _parse_name(data, at, stop)
        if client_name:
            if self._must_wait(pending):
                return statements.FLUSH
            prefix, name = self.prepared.describe(client_name, pending)
            return prefix + encode_describe(name)
        prefix = self._use_unnamed(pending)
        if self.is_waiting:
            return prefix
        return prefix + data[at:stop] if prefix else None

    def close(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        """The server connection keeps the statement, because other clients may use it and their number is bounded.

        A statement with the client's own name is closed.
        """
        data, at, stop, _ = span
        pending.is_unsynced = True
        name = _parse_name(data, at, stop) if data[at + HEADER_LENGTH] == _STATEMENT else None
        if not name:
            pending.expect(pending_replies.CLOSE if name is None else pending_replies.CLOSE_UNNAMED)
            return None
        if self._must_wait(pending):
            return statements.FLUSH
        pending.expect((ReplyKind.CLOSE, self.prepared.forget(name)))
        return encode_close(UNUSED_NAME) if name.startswith(statements.NAME_PREFIX) else None

    def execute(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.is_unsynced = True

    def flush(self, _span: MessageSpan, _pending: PendingReplies) -> None:
        return None

    def sync(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.expect_sync()

    def copy_data(self, _span: MessageSpan, _pending: PendingReplies) -> None:
        return None

    def copy_end(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.end_copy()

    def forget_all(self) -> None:
        self.prepared.forget_all()

    def _must_wait(self, pending: PendingReplies) -> bool:
        """Whether it is not known yet which statements exist, because of pending replies."""
        self.is_waiting = not pending.has_settled_batches
        return self.is_waiting

    def _use_unnamed(self, pending: PendingReplies) -> bytes:
        """Return the Parse to send before the unnamed statement is used, if the session does not have it."""
        statement = self.unnamed_statement.statement
        if pending.has_unnamed:
            if statement is not None and statement.effects is not NO_EFFECTS and not pending.is_replacing_unnamed:
                pending.record_effects(statement.effects)
            return b""
        if pending.is_skipping:
            return b""
        if not pending.has_known_statements:  # a pending reply may replace it
            self.is_waiting = True
            return statements.FLUSH
        if statement is None or not statement.body:
            return b""
        pending.record_effects(statement.effects)
        pending.has_unnamed = True
        pending.expect((ReplyKind.PARSE_OURS, pending.drop_unnamed))
        return statement.encode_parse()

    def _record_effects(self, effects: SessionEffects, pending: PendingReplies, *, runs: bool) -> bytes:
        """Record the effects of a query, which is run now if `runs`; return the messages to send before it."""
        pending.record_effects(effects)
        deallocated = [(name, self.prepared.forget(name)) for name in effects.deallocates]
        prefix = b""
        for name, undo in deallocated:
            if undo is not None:
                prefix += encode_empty_statement(name)
                pending.expect((ReplyKind.CLOSE_OURS, None if runs else undo))
                pending.expect(pending_replies.PARSE_OURS)
                pending.is_dirty = pending.has_sql_prepared = True  # it may be skipped
        for _, undo in deallocated if runs else ():
            pending.expect((ReplyKind.DEALLOCATE, undo))
        return prefix


def _encode_sentinel(pending: PendingReplies) -> bytes:
    """Return a Close to send before a simple query that follows extended ones without a Sync.

    If one of them fails, Postgres skips the query too, and the missing reply shows that.
    """
    pending.is_unsynced = False
    pending.expect(pending_replies.SENTINEL)
    return encode_close(UNUSED_NAME)


def _parse_name(data: Data, at: int, stop: int) -> bytes:
    """Parse the name in a Describe or Close message."""
    if stop - at < HEADER_LENGTH + 2 or data[stop - 1] != 0:
        raise ValueError
    return bytes(data[at + HEADER_LENGTH + 1 : stop - 1])


Handler = Callable[[MessageTranslator, MessageSpan, PendingReplies], Data | None]
HANDLERS: Mapping[int, Handler] = {
    BIND: MessageTranslator.bind,
    CALL: MessageTranslator.call,
    CLOSE: MessageTranslator.close,
    COPY_DATA: MessageTranslator.copy_data,
    COPY_DONE: MessageTranslator.copy_end,
    COPY_FAIL: MessageTranslator.copy_end,
    DESCRIBE: MessageTranslator.describe,
    EXECUTE: MessageTranslator.execute,
    FLUSH: MessageTranslator.flush,
    PARSE: MessageTranslator.parse,
    QUERY: MessageTranslator.query,
    SYNC: MessageTranslator.sync,
}
