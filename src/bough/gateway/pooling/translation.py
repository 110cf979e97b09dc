"""One message of a client, as the member that serves it shall hear it.

Names of prepared statements become ours; a statement that the member lacks is made first; a text that must
not run becomes one that Postgres refuses.
"""

from collections.abc import Callable, Mapping

from bough.gateway.pooling import awaited, statements
from bough.gateway.pooling.awaited import ReplyKind
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.prepared import MAX_STATEMENT_BYTES, ClientStatements, encode_rejection
from bough.gateway.pooling.statements import (
    UNUSED_NAME,
    PreparedStatement,
    StatementCatalog,
    encode_close,
    encode_describe,
    encode_empty_statement,
    encode_query,
)
from bough.gateway.pooling.unnamed import UnnamedStatement
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.rejections import StatementRejection
from bough.gateway.wire.session_effects import NO_EFFECTS, SessionEffects, find_session_effects

_BODY = 5  # where a message's body begins
BIND, CALL, CLOSE, COPY_DATA, COPY_DONE, COPY_FAIL, DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC = b"BFCdcfDEHPQS"
BATCH_ENDS = frozenset((CALL, QUERY, SYNC))  # of a batch
COPY_MESSAGES = frozenset((COPY_DATA, COPY_DONE, COPY_FAIL))
STREAMABLE = frozenset((BIND, CALL, COPY_DATA, PARSE, QUERY))
_STATEMENT = b"S"[0]
_TOO_LARGE = StatementRejection(
    sqlstate="54000",
    message=f"a prepared statement with a name may have {MAX_STATEMENT_BYTES >> 20} MB on a pooled host",
    hint="Prepare it without a name, or use the direct host: the same one without -pooler.",
)

Data = bytes | bytearray
MessageSpan = tuple[Data, int, int, int]  # where a message begins in it and ends, and where what there is of it ends


class MessageTranslator:
    __slots__ = ("discards_rest", "is_waiting", "prepared", "unnamed_statement")

    def __init__(self, catalog: StatementCatalog) -> None:
        self.prepared = ClientStatements(catalog)
        self.unnamed_statement = UnnamedStatement()
        self.discards_rest = False  # what is still to come of the last message goes nowhere
        self.is_waiting = False  # the last message shall be asked again when what stands in its place is answered

    def translate(self, kind: int, span: MessageSpan, pending: PendingReplies) -> Data | None:
        """What stands in its place; None: it goes on as it is."""
        try:
            return HANDLERS[kind](self, span, pending)
        except (ValueError, IndexError) as error:  # a name has no end
            raise ProtocolError("a message does not end as it must") from error

    def query(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        if pending.is_skipping:
            return None  # Postgres reads over it
        data, at, stop, limit = span
        found = find_session_effects(bytes(data[at + _BODY : min(stop - 1, limit)]), is_transaction=pending.is_free)
        if found.deallocates and self._must_wait(pending):
            return statements.FLUSH
        before = _encode_sentinel(pending) if pending.is_unsynced else b""
        if found is not NO_EFFECTS:
            if found.rejection is not None:
                self.discards_rest = limit < stop
                pending.expect_rejection(found.rejection)
                pending.expect(awaited.QUERY)
                return before + encode_query(found.rejection.failing_sql())
            before += self._record_effects(found, pending, runs=True)
        pending.expect(awaited.QUERY)
        return before + data[at:limit] if before else None

    def call(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        if pending.is_skipping:
            return None
        data, at, _, limit = span
        before = _encode_sentinel(pending) if pending.is_unsynced else b""
        pending.expect(awaited.CALL)
        return before + data[at:limit] if before else None

    def parse(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        data, at, stop, limit = span
        end = data.index(0, at + _BODY, limit)
        body = bytes(data[end + 1 : limit])
        name = bytes(data[at + _BODY : end])
        if pending.is_skipping and not name:
            return None
        found = find_session_effects(body.partition(b"\0")[0], is_transaction=not name and pending.is_free)
        if (name or found.deallocates) and self._must_wait(pending):
            return statements.FLUSH
        refusal = found.rejection or (_TOO_LARGE if name and limit < stop else None)
        self.discards_rest = limit < stop and (refusal is not None or bool(name))
        if refusal is not None:
            pending.is_unsynced = True
            return encode_rejection(refusal, pending)
        before = b"" if found is NO_EFFECTS else self._record_effects(found, pending, runs=False)
        if name:
            pending.is_unsynced = True
            made = before + self.prepared.parse(name, body, found, pending)
            self.is_waiting, self.prepared.is_waiting = self.prepared.is_waiting, False
            return made
        if pending.is_unsynced:
            # It ends the former one even if it fails, but not if it is skipped; so a message goes ahead that is
            # skipped with it, and does not fail.
            pending.expect(awaited.CLOSE_OURS)
            before += encode_close(UNUSED_NAME)
        pending.expect_unnamed_parse(PreparedStatement(b"", body if limit == stop else b"", found))
        return before + data[at:limit] if before else None

    def accept_batch(self, statement: bytes, pending: PendingReplies) -> bool:
        """All that `batches` takes in one go; whether nothing is to be changed about it."""
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
        begin = data.index(0, at + _BODY, limit) + 1
        end = data.index(0, begin, limit)
        pending.is_unsynced = True
        if end == begin:
            before = self._use_unnamed(pending)
            if self.is_waiting:
                return before
            pending.mark_bound()
            return before + data[at:limit] if before else None
        if self._must_wait(pending):
            return statements.FLUSH
        given = bytes(data[begin:end])
        before, name = self.prepared.use(given, pending)
        self.is_waiting, self.prepared.is_waiting = self.prepared.is_waiting, False
        if self.is_waiting:
            return before
        pending.mark_bound()
        length = (stop - at - 1 + len(name) - (end - begin)).to_bytes(4)
        return b"".join((before, b"B", length, data[at + _BODY : begin], name, data[end:limit]))

    def describe(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        data, at, stop, _ = span
        pending.is_unsynced = True
        if data[at + _BODY] != _STATEMENT:
            return None
        given = _name(data, at, stop)
        if given:
            if self._must_wait(pending):
                return statements.FLUSH
            before, name = self.prepared.describe(given, pending)
            return before + encode_describe(name)
        before = self._use_unnamed(pending)
        if self.is_waiting:
            return before
        return before + data[at:stop] if before else None

    def close(self, span: MessageSpan, pending: PendingReplies) -> Data | None:
        """The member keeps the statement: others may need it, and they are bounded.

        What it may have under the client's own name goes.
        """
        data, at, stop, _ = span
        pending.is_unsynced = True
        name = _name(data, at, stop) if data[at + _BODY] == _STATEMENT else None
        if not name:
            pending.expect(awaited.CLOSE if name is None else awaited.CLOSE_UNNAMED)
            return None
        if self._must_wait(pending):
            return statements.FLUSH
        pending.expect((ReplyKind.CLOSE, self.prepared.forget(name)))
        return encode_close(UNUSED_NAME) if name.startswith(statements.NAME_PREFIX) else None

    def execute(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.is_unsynced = True

    def flush(self, _span: MessageSpan, _ledger: PendingReplies) -> None:
        return None

    def sync(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.expect_sync()

    def copy_data(self, _span: MessageSpan, _ledger: PendingReplies) -> None:
        return None

    def copy_end(self, _span: MessageSpan, pending: PendingReplies) -> None:
        pending.end_copy()

    def forget_all(self) -> None:
        self.prepared.forget_all()

    def _must_wait(self, ledger: PendingReplies) -> bool:
        """Whether the statements are not known yet that a message speaks of by name."""
        self.is_waiting = not ledger.has_settled_batches
        return self.is_waiting

    def _use_unnamed(self, ledger: PendingReplies) -> bytes:
        """What stands before that: it is made again where it is missing."""
        statement = self.unnamed_statement.statement
        if ledger.has_unnamed:
            if statement is not None and statement.effects is not NO_EFFECTS and not ledger.is_replacing_unnamed:
                ledger.record_effects(statement.effects)
            return b""
        if ledger.is_skipping:
            return b""
        if not ledger.has_known_statements:  # it may turn out that there is another one
            self.is_waiting = True
            return statements.FLUSH
        if statement is None or not statement.body:
            return b""
        ledger.record_effects(statement.effects)
        ledger.has_unnamed = True
        ledger.expect((ReplyKind.PARSE_OURS, ledger.drop_unnamed))
        return statement.encode_parse()

    def _record_effects(self, found: SessionEffects, ledger: PendingReplies, *, runs: bool) -> bytes:
        """What a text does, now if it `runs`; what stands before it."""
        ledger.record_effects(found)
        forgotten = [(name, self.prepared.forget(name)) for name in found.deallocates]
        before = b""
        for name, undo in forgotten:
            if undo is not None:
                before += encode_empty_statement(name)
                ledger.expect((ReplyKind.CLOSE_OURS, None if runs else undo))
                ledger.expect(awaited.PARSE_OURS)
                ledger.is_dirty = ledger.has_sql_prepared = True  # it may not come to that
        for _, undo in forgotten if runs else ():
            ledger.expect((ReplyKind.DEALLOCATE, undo))
        return before


def _encode_sentinel(ledger: PendingReplies) -> bytes:
    """Before a simple query that follows extended ones without a Sync: Postgres skips it when they fail."""
    ledger.is_unsynced = False
    ledger.expect(awaited.SENTINEL)
    return encode_close(UNUSED_NAME)


def _name(data: Data, at: int, stop: int) -> bytes:
    """Of a statement or portal, where a message has nothing else."""
    if stop - at < _BODY + 2 or data[stop - 1] != 0:
        raise ValueError
    return bytes(data[at + _BODY + 1 : stop - 1])


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
