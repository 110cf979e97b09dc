"""Translates the messages of a client for the server connection that serves it.

Prepared statements get names of the gateway's own, and a statement that the server connection does not have is
prepared first. A statement that must not run is replaced by one that Postgres rejects. This module handles the
extended query protocol; `simple_query` handles the other messages.
"""

from collections.abc import Callable, Mapping

from bough.gateway.pooling import expected_replies, frontend_messages, statements
from bough.gateway.pooling.expected_replies import ReplyKind
from bough.gateway.pooling.frontend_messages import MAX_STATEMENT_BYTES, Data, MessageSpan
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.prepared import encode_rejection
from bough.gateway.pooling.simple_query import SimpleQueryTranslator
from bough.gateway.pooling.statements import UNUSED_NAME, PreparedStatement, encode_close, encode_describe
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.rejections import StatementRejection
from bough.gateway.wire.session_effects import NO_EFFECTS, find_session_effects

_STATEMENT = b"S"[0]
_TOO_LARGE = StatementRejection(
    sqlstate="54000",
    message=f"a named prepared statement may be at most {MAX_STATEMENT_BYTES >> 20} MB long on a pooled host",
    hint="Prepare it without a name, or use the direct host: the same name without -pooler.",
)


class MessageTranslator(SimpleQueryTranslator):
    __slots__ = ()

    def translate(self, kind: int, span: MessageSpan, pending: PendingReplies) -> Data | None:
        """Return the replacement for a message; None: forward it unchanged."""
        try:
            return _HANDLERS[kind](self, span, pending)
        except (ValueError, IndexError) as error:  # a name is not terminated
            raise ProtocolError("a message is not terminated correctly") from error

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
            pending.expect(expected_replies.CLOSE_OURS)
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
        pending.expect_unused_description()
        return prefix + data[at:stop] if prefix else None

    def close(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        """The server connection keeps the statement, because other clients may use it and their number is bounded.

        A statement with the client's own name is closed.
        """
        data, at, stop, _ = span
        pending.is_unsynced = True
        name = _parse_name(data, at, stop) if data[at + HEADER_LENGTH] == _STATEMENT else None
        if not name:
            pending.expect(expected_replies.CLOSE if name is None else expected_replies.CLOSE_UNNAMED)
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

    def forget_all(self) -> None:
        self.prepared.forget_all()

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


def _parse_name(data: Data, at: int, stop: int) -> bytes:
    """Parse the name in a Describe or Close message."""
    if stop - at < HEADER_LENGTH + 2 or data[stop - 1] != 0:
        raise ValueError
    return bytes(data[at + HEADER_LENGTH + 1 : stop - 1])


Handler = Callable[[MessageTranslator, MessageSpan, PendingReplies], Data | None]
_HANDLERS: Mapping[int, Handler] = {
    frontend_messages.BIND: MessageTranslator.bind,
    frontend_messages.CALL: MessageTranslator.call,
    frontend_messages.CLOSE: MessageTranslator.close,
    frontend_messages.COPY_DATA: MessageTranslator.copy_data,
    frontend_messages.COPY_DONE: MessageTranslator.copy_end,
    frontend_messages.COPY_FAIL: MessageTranslator.copy_end,
    frontend_messages.DESCRIBE: MessageTranslator.describe,
    frontend_messages.EXECUTE: MessageTranslator.execute,
    frontend_messages.FLUSH: MessageTranslator.flush,
    frontend_messages.PARSE: MessageTranslator.parse,
    frontend_messages.QUERY: MessageTranslator.query,
    frontend_messages.SYNC: MessageTranslator.sync,
}
