"""The prepared statement without a name, of one client: made again on whatever member serves it.

Another takes its place, and a simple query ends it; but not where Postgres skips them because of an error before.
"""

from collections.abc import Callable
from functools import partial

from bough.gateway.pooling.awaited import Awaited
from bough.gateway.pooling.ledger import Ledger
from bough.gateway.pooling.statements import NOBODY, Statement, close
from bough.gateway.wire.session_words import PLAIN


class Unnamed:
    __slots__ = ("_statement",)

    def __init__(self) -> None:
        self._statement: Statement | None = None

    def parse(self, statement: Statement, ledger: Ledger) -> bytes:
        """What stands before the message that makes it."""
        before = b""
        if ledger.unsynced:
            # Something before it may fail. It takes the other's place even if it fails itself, but not if it is
            # skipped; so a message goes ahead that is skipped with it, and does not fail.
            ledger.expect((Awaited.CLOSE_OURS, self.as_it_is(ledger)))
            before = close(NOBODY)
        self._statement = ledger.unnamed = statement
        ledger.expect(ledger.parse_unnamed)
        return before

    def use(self, ledger: Ledger) -> bytes:
        """What stands before that."""
        statement = self._statement
        if statement is None or not statement.body:
            return b""
        if statement.look is not PLAIN:
            ledger.note(statement.look)
        return ledger.hold_unnamed(statement)

    def end(self, ledger: Ledger) -> None:
        self._statement = ledger.unnamed = None

    def forget(self) -> None:
        self._statement = None

    def as_it_is(self, ledger: Ledger) -> Callable[[], None]:
        """How to bring it back, when what ends it is skipped."""
        return partial(self._keep, ledger, self._statement, ledger.unnamed)

    def _keep(self, ledger: Ledger, ours: Statement | None, held: Statement | None) -> None:
        self._statement, ledger.unnamed = ours, held
