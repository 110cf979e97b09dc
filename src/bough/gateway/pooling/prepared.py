"""The prepared statements of one client, by the names that it gave them.

A driver that asked once what columns a statement has reads all its rows so. Where such a statement is made
again, it is first seen whether it still has the same ones; if not, the client is told what Postgres tells a
session whose statement has got others.
"""

from collections.abc import Callable
from functools import partial

from bough.gateway.pooling import awaited
from bough.gateway.pooling.awaited import Awaited
from bough.gateway.pooling.ledger import Ledger
from bough.gateway.pooling.statements import (
    FLUSH,
    NOBODY,
    PREFIX,
    Catalog,
    Context,
    Statement,
    describe,
    empty,
)
from bough.gateway.wire.refusals import Refusal
from bough.gateway.wire.session_words import PLAIN, Look, look

LARGEST_STATEMENT = 1 << 20  # bytes
_MOST_BYTES = 8 << 20
_MOST_NAMES = 10_000
_MOST_FORMER = 100
UNKNOWN = PREFIX + b"unknown"  # names of ours mean nothing when a client says them
_TOO_MANY = Refusal(
    code="54000",
    message=f"on a pooled host a connection keeps {_MOST_NAMES} prepared statements or {_MOST_BYTES >> 20} MB of them",
    hint="Close those that are not needed any longer.",
)
_OUR_NAME = Refusal(
    code="42602",
    message=f"names of prepared statements that begin with {PREFIX.decode()} are the pooled host's own",
    hint="Choose another name.",
)
_OTHER_COLUMNS = Refusal(
    message="cached plan must not change result type",
    hint="Prepare the statement again: its columns are others than when it was described.",
    routine="RevalidateCachedQuery",
)


class Prepared:
    __slots__ = ("_bytes", "_catalog", "_described", "_former", "_names", "context", "held", "waits")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names: dict[bytes, Statement] = {}
        self.held: dict[bytes, int] = {}  # names of these on members, and how many names the client has for each
        self._described: set[bytes] = set()  # names whose columns the client has asked for
        self._former: dict[bytes, bytes] = {}  # our names of some that are gone: errors may still speak of them
        self._bytes = 0  # of their texts
        self.context: Context = frozenset()  # what the session has set
        self.waits = False  # what was asked for last must be answered before its use is decided

    def parse(self, name: bytes, body: bytes, found: Look, ledger: Ledger) -> bytes:
        if name.startswith(PREFIX):
            return refused(_OUR_NAME, ledger)
        if name in self._names:
            if not ledger.is_answered:  # it may turn out that there is no such name
                self.waits = True
                return FLUSH
            return _twice(name, body, ledger)
        if len(self._names) >= _MOST_NAMES or self._bytes + len(body) > _MOST_BYTES:
            return refused(_TOO_MANY, ledger)
        statement = self._catalog.find(body, found, self.context)
        self._remember(name, statement)
        before = ledger.make_room(statement)
        ledger.expect((Awaited.PARSE, partial(self._not_made, name, statement, ledger)))
        return before + statement.parse() + _checked(statement, ledger)

    def use(self, given: bytes, ledger: Ledger) -> tuple[bytes, bytes]:
        """What stands before its use, and its name on the member."""
        statement = self._names.get(given)
        if statement is None:
            return b"", UNKNOWN if given.startswith(PREFIX) else given
        if statement.look is not PLAIN:
            refusal = self._refusal(statement, ledger)
            if refusal is not None:
                return refused(refusal, ledger), NOBODY
            ledger.note(statement.look)
        before = ledger.hold(statement)
        if given not in self._described:
            return before, statement.name
        if before and statement.shape is not None and not ledger.is_skipping:
            self.waits = True
            return before + _checked(statement, ledger) + FLUSH, b""
        if statement.name in ledger.misfits:
            return refused(_OTHER_COLUMNS, ledger), NOBODY
        return before, statement.name

    def describe(self, given: bytes, ledger: Ledger) -> tuple[bytes, bytes]:
        statement = self._names.get(given)
        if statement is None:
            return b"", UNKNOWN if given.startswith(PREFIX) else given
        before = ledger.hold(statement)
        ledger.describe(Awaited.DESCRIBE, partial(self._told, given, statement, ledger))
        return before, statement.name

    def text(self, name: bytes) -> bytes | None:
        statement = self._names.get(name)
        return None if statement is None else statement.body.partition(b"\0")[0]

    def forget(self, name: bytes) -> Callable[[], None] | None:
        """How to undo that; None: there is no such name."""
        statement = self._names.pop(name, None)
        if statement is None:
            return None
        self._release(statement)
        self._described.discard(name)
        if len(self._former) >= _MOST_FORMER:
            self._former.clear()
        self._former[statement.name] = name
        return partial(self._remember, name, statement)

    def forget_all(self) -> None:
        self._names.clear()
        self.held.clear()
        self._described.clear()
        self._bytes = 0

    def in_their_words(self, error: bytes) -> bytes:
        """An error message with the client's own names of its statements."""
        for ours, name in {**self._former, **{each.name: name for name, each in self._names.items()}}.items():
            error = error.replace(b'"%b"' % ours, b'"%b"' % name)
        return error[:1] + (len(error) - 1).to_bytes(4) + error[5:]

    def _refusal(self, statement: Statement, ledger: Ledger) -> Refusal | None:
        """Of one that leaves something behind, when it is used without a transaction around it."""
        if not statement.look.dirties or not ledger.is_alone:
            return None
        return look(statement.body.partition(b"\0")[0], alone=True).refusal

    def _told(self, name: bytes, statement: Statement, ledger: Ledger, shape: bytes) -> None:
        self._described.add(name)
        if statement.shape is None:
            statement.shape = shape
        elif statement.shape == shape:
            ledger.misfits.discard(statement.name)
        elif self._names.get(name) is statement:
            ledger.misfits.add(statement.name)
            self._release(statement)
            self._remember(name, self._catalog.renew(statement, shape))

    def _remember(self, name: bytes, statement: Statement) -> None:
        self._names[name] = statement
        self._bytes += len(statement.body)
        self.held[statement.name] = self.held.get(statement.name, 0) + 1

    def _release(self, statement: Statement) -> None:
        """One name of it is gone."""
        self._bytes -= len(statement.body)
        self.held[statement.name] -= 1
        if not self.held[statement.name]:
            del self.held[statement.name]

    def _not_made(self, name: bytes, statement: Statement, ledger: Ledger) -> None:
        self.forget(name)
        ledger.drop(statement.name)


def refused(refusal: Refusal, ledger: Ledger) -> bytes:
    """A Parse that fails, in place of what is refused."""
    ledger.refuse(refusal)
    return Statement(NOBODY, refusal.text() + b"\0\0\0", PLAIN).parse()


def _checked(statement: Statement, ledger: Ledger) -> bytes:
    """See whether it has the columns that clients were told."""
    if statement.shape is None:
        return b""
    ledger.describe(Awaited.DESCRIBE_OURS, partial(ledger.compare, statement))
    return describe(statement.name)


def _twice(name: bytes, body: bytes, ledger: Ledger) -> bytes:
    """Postgres itself shall say what is wrong with the text, or that the name is taken; the member is cleaned of it."""
    ledger.is_dirty = ledger.prepares = True
    ledger.expect(awaited.CLOSE_OURS)
    ledger.expect(awaited.PARSE_OURS)
    ledger.expect((Awaited.PARSE, None))
    return empty(name) + Statement(name, body, PLAIN).parse()
