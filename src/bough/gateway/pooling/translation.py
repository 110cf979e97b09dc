"""One message of a client, as the member that serves it shall hear it.

Names of prepared statements become ours; a statement that the member lacks is made first; a text that must
not run becomes one that Postgres refuses.
"""

from collections.abc import Callable, Mapping

from bough.gateway.pooling import awaited, statements
from bough.gateway.pooling.awaited import Awaited
from bough.gateway.pooling.ledger import Ledger
from bough.gateway.pooling.prepared import LARGEST_STATEMENT, Prepared, refused
from bough.gateway.pooling.statements import NOBODY, Catalog, Statement, close, describe, empty, query
from bough.gateway.pooling.unnamed import Unnamed
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.refusals import Refusal
from bough.gateway.wire.session_words import PLAIN, Look, look

_BODY = 5  # where a message's body begins
BIND, CALL, CLOSE, COPY_DATA, COPY_DONE, COPY_FAIL, DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC = b"BFCdcfDEHPQS"
ENDS = frozenset((CALL, QUERY, SYNC))  # of a batch
COPYING = frozenset((COPY_DATA, COPY_DONE, COPY_FAIL))
IN_PIECES = frozenset((BIND, CALL, COPY_DATA, PARSE, QUERY))
_STATEMENT = b"S"[0]
_TOO_LARGE = Refusal(
    code="54000",
    message=f"a prepared statement with a name may have {LARGEST_STATEMENT >> 20} MB on a pooled host",
    hint="Prepare it without a name, or use the direct host: the same one without -pooler.",
)

Data = bytes | bytearray
Span = tuple[Data, int, int, int]  # where a message begins in it and ends, and where what there is of it ends


class Translation:
    __slots__ = ("prepared", "swallows", "unnamed", "waits")

    def __init__(self, catalog: Catalog) -> None:
        self.prepared = Prepared(catalog)
        self.unnamed = Unnamed()
        self.swallows = False  # what is still to come of the last message goes nowhere
        self.waits = False  # the last message shall be asked again when what stands in its place is answered

    def message(self, kind: int, span: Span, ledger: Ledger) -> Data | None:
        """What stands in its place; None: it goes on as it is."""
        try:
            return HANDLERS[kind](self, span, ledger)
        except (ValueError, IndexError) as error:  # a name has no end
            raise Malformed("a message does not end as it must") from error

    def query(self, span: Span, ledger: Ledger) -> Data | None:
        if ledger.is_skipping:
            return None  # Postgres reads over it
        data, at, stop, limit = span
        found = look(bytes(data[at + _BODY : min(stop - 1, limit)]), alone=ledger.is_free)
        if found.deallocates and self._must_wait(ledger):
            return statements.FLUSH
        before = _guard(ledger) if ledger.unsynced else b""
        if found is not PLAIN:
            if found.refusal is not None:
                self.swallows = limit < stop
                ledger.refuse(found.refusal)
                ledger.expect(awaited.QUERY)
                return before + query(found.refusal.text())
            before += self._note(found, ledger, runs=True)
        ledger.expect(awaited.QUERY)
        return before + data[at:limit] if before else None

    def call(self, span: Span, ledger: Ledger) -> Data | None:
        if ledger.is_skipping:
            return None
        data, at, _, limit = span
        before = _guard(ledger) if ledger.unsynced else b""
        ledger.expect(awaited.CALL)
        return before + data[at:limit] if before else None

    def parse(self, span: Span, ledger: Ledger) -> Data | None:
        data, at, stop, limit = span
        end = data.index(0, at + _BODY, limit)
        body = bytes(data[end + 1 : limit])
        name = bytes(data[at + _BODY : end])
        if ledger.is_skipping and not name:
            return None
        found = look(body.partition(b"\0")[0], alone=not name and ledger.is_free)
        if (name or found.deallocates) and self._must_wait(ledger):
            return statements.FLUSH
        refusal = found.refusal or (_TOO_LARGE if name and limit < stop else None)
        self.swallows = limit < stop and (refusal is not None or bool(name))
        if refusal is not None:
            ledger.unsynced = True
            return refused(refusal, ledger)
        before = b"" if found is PLAIN else self._note(found, ledger, runs=False)
        if name:
            ledger.unsynced = True
            made = before + self.prepared.parse(name, body, found, ledger)
            self.waits, self.prepared.waits = self.prepared.waits, False
            return made
        if ledger.unsynced:
            # It ends the former one even if it fails, but not if it is skipped; so a message goes ahead that is
            # skipped with it, and does not fail.
            ledger.expect(awaited.CLOSE_OURS)
            before += close(NOBODY)
        ledger.parse_unnamed(Statement(b"", body if limit == stop else b"", found))
        return before + data[at:limit] if before else None

    def batch(self, statement: bytes, ledger: Ledger) -> bool:
        """All that `batches` takes in one go; whether nothing is to be changed about it."""
        if ledger.unsynced or look(statement.partition(b"\0")[0], alone=ledger.is_free) is not PLAIN:
            return False
        ledger.parse_unnamed(Statement(b"", statement, PLAIN))
        ledger.sync()
        return True

    def bind(self, span: Span, ledger: Ledger) -> Data | None:
        data, at, stop, limit = span
        begin = data.index(0, at + _BODY, limit) + 1
        end = data.index(0, begin, limit)
        ledger.unsynced = True
        if end == begin:
            before = self._use_unnamed(ledger)
            if self.waits:
                return before
            ledger.bind()
            return before + data[at:limit] if before else None
        if self._must_wait(ledger):
            return statements.FLUSH
        given = bytes(data[begin:end])
        before, name = self.prepared.use(given, ledger)
        self.waits, self.prepared.waits = self.prepared.waits, False
        if self.waits:
            return before
        ledger.bind()
        length = (stop - at - 1 + len(name) - (end - begin)).to_bytes(4)
        return b"".join((before, b"B", length, data[at + _BODY : begin], name, data[end:limit]))

    def describe(self, span: Span, ledger: Ledger) -> Data | None:
        data, at, stop, _ = span
        ledger.unsynced = True
        if data[at + _BODY] != _STATEMENT:
            return None
        given = _name(data, at, stop)
        if given:
            if self._must_wait(ledger):
                return statements.FLUSH
            before, name = self.prepared.describe(given, ledger)
            return before + describe(name)
        before = self._use_unnamed(ledger)
        if self.waits:
            return before
        return before + data[at:stop] if before else None

    def close(self, span: Span, ledger: Ledger) -> Data | None:
        """The member keeps the statement: others may need it, and they are bounded.

        What it may have under the client's own name goes.
        """
        data, at, stop, _ = span
        ledger.unsynced = True
        name = _name(data, at, stop) if data[at + _BODY] == _STATEMENT else None
        if not name:
            ledger.expect(awaited.CLOSE if name is None else awaited.CLOSE_UNNAMED)
            return None
        if self._must_wait(ledger):
            return statements.FLUSH
        ledger.expect((Awaited.CLOSE, self.prepared.forget(name)))
        return close(NOBODY) if name.startswith(statements.PREFIX) else None

    def execute(self, _span: Span, ledger: Ledger) -> None:
        ledger.unsynced = True

    def flush(self, _span: Span, _ledger: Ledger) -> None:
        return None

    def sync(self, _span: Span, ledger: Ledger) -> None:
        ledger.sync()

    def copy_data(self, _span: Span, _ledger: Ledger) -> None:
        return None

    def copy_end(self, _span: Span, ledger: Ledger) -> None:
        ledger.copy_ended()

    def forget_all(self) -> None:
        self.prepared.forget_all()

    def _must_wait(self, ledger: Ledger) -> bool:
        """Whether the statements are not known yet that a message speaks of by name."""
        self.waits = not ledger.is_decided
        return self.waits

    def _use_unnamed(self, ledger: Ledger) -> bytes:
        """What stands before that: it is made again where it is missing."""
        statement = self.unnamed.statement
        if ledger.has_unnamed:
            if statement is not None and statement.look is not PLAIN and not ledger.makes_unnamed:
                ledger.note(statement.look)
            return b""
        if ledger.is_skipping:
            return b""
        if not ledger.is_answered:  # it may turn out that there is another one
            self.waits = True
            return statements.FLUSH
        if statement is None or not statement.body:
            return b""
        ledger.note(statement.look)
        ledger.has_unnamed = True
        ledger.expect((Awaited.PARSE_OURS, ledger.lose_unnamed))
        return statement.parse()

    def _note(self, found: Look, ledger: Ledger, *, runs: bool) -> bytes:
        """What a text does, now if it `runs`; what stands before it."""
        ledger.note(found)
        forgotten = [(name, self.prepared.forget(name)) for name in found.deallocates]
        before = b""
        for name, undo in forgotten:
            if undo is not None:
                before += empty(name)
                ledger.expect((Awaited.CLOSE_OURS, None if runs else undo))
                ledger.expect(awaited.PARSE_OURS)
                ledger.is_dirty = ledger.prepares = True  # it may not come to that
        for _, undo in forgotten if runs else ():
            ledger.expect((Awaited.DEALLOCATE, undo))
        return before


def _guard(ledger: Ledger) -> bytes:
    """Before a simple query that follows extended ones without a Sync: Postgres skips it when they fail."""
    ledger.unsynced = False
    ledger.expect(awaited.SENTINEL)
    return close(NOBODY)


def _name(data: Data, at: int, stop: int) -> bytes:
    """Of a statement or portal, where a message has nothing else."""
    if stop - at < _BODY + 2 or data[stop - 1] != 0:
        raise ValueError
    return bytes(data[at + _BODY + 1 : stop - 1])


Handler = Callable[[Translation, Span, Ledger], Data | None]
HANDLERS: Mapping[int, Handler] = {
    BIND: Translation.bind,
    CALL: Translation.call,
    CLOSE: Translation.close,
    COPY_DATA: Translation.copy_data,
    COPY_DONE: Translation.copy_end,
    COPY_FAIL: Translation.copy_end,
    DESCRIBE: Translation.describe,
    EXECUTE: Translation.execute,
    FLUSH: Translation.flush,
    PARSE: Translation.parse,
    QUERY: Translation.query,
    SYNC: Translation.sync,
}
