"""The prepared statements of one client, by the names that it gave them.

A driver that asked once what columns a statement has reads all its rows so. Where such a statement is made
again, it is first seen whether it still has the same ones; if not, the client is told what Postgres tells a
session whose statement has got others.
"""

from collections.abc import Callable
from functools import partial

from bough.gateway.pooling import awaited
from bough.gateway.pooling.awaited import ReplyKind
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.statements import (
    FLUSH,
    NAME_PREFIX,
    UNUSED_NAME,
    PreparedStatement,
    SettingsContext,
    StatementCatalog,
    encode_describe,
    encode_empty_statement,
)
from bough.gateway.wire.rejections import StatementRejection
from bough.gateway.wire.session_effects import NO_EFFECTS, SessionEffects, find_session_effects

MAX_STATEMENT_BYTES = 1 << 20  # bytes
_MOST_BYTES = 8 << 20
_MOST_NAMES = 10_000
_MOST_FORMER = 100
UNKNOWN_NAME = NAME_PREFIX + b"unknown"  # names of ours mean nothing when a client says them
_TOO_MANY = StatementRejection(
    sqlstate="54000",
    message=f"on a pooled host a connection keeps {_MOST_NAMES} prepared statements or {_MOST_BYTES >> 20} MB of them",
    hint="Close those that are not needed any longer.",
)
_OUR_NAME = StatementRejection(
    sqlstate="42602",
    message=f"names of prepared statements that begin with {NAME_PREFIX.decode()} are the pooled host's own",
    hint="Choose another name.",
)
_OTHER_COLUMNS = StatementRejection(
    message="cached plan must not change result type",
    hint="Prepare the statement again: its columns are others than when it was described.",
    routine="RevalidateCachedQuery",
)


class ClientStatements:
    __slots__ = ("_bytes", "_catalog", "_described", "_former", "_names", "context", "is_waiting", "server_names")

    def __init__(self, catalog: StatementCatalog) -> None:
        self._catalog = catalog
        self._names: dict[bytes, PreparedStatement] = {}
        self.server_names: dict[
            bytes, int
        ] = {}  # names of these on members, and how many names the client has for each
        self._described: set[bytes] = set()  # names whose columns the client has asked for
        self._former: dict[bytes, bytes] = {}  # our names of some that are gone: errors may still speak of them
        self._bytes = 0  # of their texts
        self.context: SettingsContext = frozenset()  # what the session has set
        self.is_waiting = False  # what was asked for last must be answered before its use is decided

    def parse(self, name: bytes, body: bytes, effects: SessionEffects, pending: PendingReplies) -> bytes:
        if name.startswith(NAME_PREFIX):
            return encode_rejection(_OUR_NAME, pending)
        if name in self._names:
            if not pending.has_known_statements:  # it may turn out that there is no such name
                self.is_waiting = True
                return FLUSH
            return _encode_duplicate_parse(name, body, pending)
        if len(self._names) >= _MOST_NAMES or self._bytes + len(body) > _MOST_BYTES:
            return encode_rejection(_TOO_MANY, pending)
        statement = self._catalog.find_or_add(body, effects, self.context)
        self._add(name, statement)
        before = pending.add_statement(statement)
        pending.expect((ReplyKind.PARSE, partial(self._undo_parse, name, statement, pending)))
        return before + statement.encode_parse() + _encode_description_check(statement, pending)

    def use(self, name: bytes, pending: PendingReplies) -> tuple[bytes, bytes]:
        """What stands before its use, and its name on the member."""
        statement = self._names.get(name)
        if statement is None:
            return b"", UNKNOWN_NAME if name.startswith(NAME_PREFIX) else name
        if statement.effects is not NO_EFFECTS:
            refusal = self._find_rejection(statement, pending)
            if refusal is not None:
                return encode_rejection(refusal, pending), UNUSED_NAME
            pending.record_effects(statement.effects)
        before = pending.ensure_prepared(statement)
        if name not in self._described:
            return before, statement.name
        if before and statement.description_hash is not None and not pending.is_skipping:
            self.is_waiting = True
            return before + _encode_description_check(statement, pending) + FLUSH, b""
        if statement.name in pending.changed_statements:
            return encode_rejection(_OTHER_COLUMNS, pending), UNUSED_NAME
        return before, statement.name

    def describe(self, name: bytes, pending: PendingReplies) -> tuple[bytes, bytes]:
        statement = self._names.get(name)
        if statement is None:
            return b"", UNKNOWN_NAME if name.startswith(NAME_PREFIX) else name
        before = pending.ensure_prepared(statement)
        pending.expect_description(ReplyKind.DESCRIBE, partial(self._on_described, name, statement, pending))
        return before, statement.name

    def get_text(self, name: bytes) -> bytes | None:
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
        return partial(self._add, name, statement)

    def forget_all(self) -> None:
        self._names.clear()
        self.server_names.clear()
        self._described.clear()
        self._bytes = 0

    def restore_client_names(self, error: bytes) -> bytes:
        """An error message with the client's own names of its statements."""
        for ours, name in {**self._former, **{each.name: name for name, each in self._names.items()}}.items():
            error = error.replace(b'"%b"' % ours, b'"%b"' % name)
        return error[:1] + (len(error) - 1).to_bytes(4) + error[5:]

    def _find_rejection(self, statement: PreparedStatement, ledger: PendingReplies) -> StatementRejection | None:
        """Of one that leaves something behind, when it is used without a transaction around it."""
        if not statement.effects.leaves_state or not ledger.is_implicit_transaction:
            return None
        return find_session_effects(statement.body.partition(b"\0")[0], is_transaction=True).rejection

    def _on_described(self, name: bytes, statement: PreparedStatement, ledger: PendingReplies, shape: bytes) -> None:
        self._described.add(name)
        if statement.description_hash is None:
            statement.description_hash = shape
        elif statement.description_hash == shape:
            ledger.changed_statements.discard(statement.name)
        elif self._names.get(name) is statement:
            ledger.changed_statements.add(statement.name)
            self._release(statement)
            self._add(name, self._catalog.renew(statement, shape))

    def _add(self, name: bytes, statement: PreparedStatement) -> None:
        self._names[name] = statement
        self._bytes += len(statement.body)
        self.server_names[statement.name] = self.server_names.get(statement.name, 0) + 1

    def _release(self, statement: PreparedStatement) -> None:
        """One name of it is gone."""
        self._bytes -= len(statement.body)
        self.server_names[statement.name] -= 1
        if not self.server_names[statement.name]:
            del self.server_names[statement.name]

    def _undo_parse(self, name: bytes, statement: PreparedStatement, ledger: PendingReplies) -> None:
        self.forget(name)
        ledger.mark_stale(statement.name)


def encode_rejection(rejection: StatementRejection, pending: PendingReplies) -> bytes:
    """A Parse that fails, in place of what is refused."""
    pending.expect_rejection(rejection)
    return PreparedStatement(UNUSED_NAME, rejection.failing_sql() + b"\0\0\0", NO_EFFECTS).encode_parse()


def _encode_description_check(statement: PreparedStatement, ledger: PendingReplies) -> bytes:
    """See whether it has the columns that clients were told."""
    if statement.description_hash is None:
        return b""
    ledger.expect_description(ReplyKind.DESCRIBE_OURS, partial(ledger.compare_description, statement))
    return encode_describe(statement.name)


def _encode_duplicate_parse(name: bytes, body: bytes, ledger: PendingReplies) -> bytes:
    """Postgres itself shall say what is wrong with the text, or that the name is taken; the member is cleaned of it."""
    ledger.is_dirty = ledger.has_sql_prepared = True
    ledger.expect(awaited.CLOSE_OURS)
    ledger.expect(awaited.PARSE_OURS)
    ledger.expect((ReplyKind.PARSE, None))
    return encode_empty_statement(name) + PreparedStatement(name, body, NO_EFFECTS).encode_parse()
