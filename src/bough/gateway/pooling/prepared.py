"""The prepared statements of one client, by the client's names.

A driver that has described a statement once reads all of its rows that way. When the gateway prepares such a
statement again, it first checks that the columns are the same. If they are not, the client gets the error that
Postgres reports when the result type of a cached plan changes.
"""

from collections.abc import Callable
from functools import partial

from bough.gateway.pooling.expected_replies import CLOSE_OURS, PARSE_OURS, ReplyKind
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

_MAX_TOTAL_BYTES = 8 << 20
_MAX_NAMES = 10_000
_MAX_CLOSED = 100
UNKNOWN_NAME = NAME_PREFIX + b"unknown"  # replaces a name with our prefix in a client's message
_TOO_MANY = StatementRejection(
    sqlstate="54000",
    message=(
        f"on a pooled host a connection may have at most {_MAX_NAMES} prepared statements or "
        f"{_MAX_TOTAL_BYTES >> 20} MB of them"
    ),
    hint="Close statements that are no longer needed.",
)
_OUR_NAME = StatementRejection(
    sqlstate="42602",
    message=f"prepared statement names that begin with {NAME_PREFIX.decode()} are reserved on a pooled host",
    hint="Choose another name.",
)
_OTHER_COLUMNS = StatementRejection(
    message="cached plan must not change result type",
    hint="Prepare the statement again: its columns have changed since it was described.",
    routine="RevalidateCachedQuery",
)


class ClientStatements:
    __slots__ = (
        "_catalog",
        "_closed",
        "_described",
        "_names",
        "_total_bytes",
        "context",
        "is_waiting",
        "server_names",
    )

    def __init__(self, catalog: StatementCatalog) -> None:
        self._catalog = catalog
        self._names: dict[bytes, PreparedStatement] = {}
        self.server_names: dict[bytes, int] = {}  # names on server connections; the number of client names for each
        self._described: set[bytes] = set()  # names that the client has described
        self._closed: dict[bytes, bytes] = {}  # server names of closed statements, which errors may still mention
        self._total_bytes = 0
        self.context: SettingsContext = frozenset()  # the settings of the session
        self.is_waiting = False  # the last message must wait for a pending reply

    def parse(self, name: bytes, body: bytes, effects: SessionEffects, pending: PendingReplies) -> bytes:
        if name.startswith(NAME_PREFIX):
            return encode_rejection(_OUR_NAME, pending)
        if name in self._names:
            if not pending.has_known_statements:  # a pending reply may show that the name is free
                self.is_waiting = True
                return FLUSH
            return _encode_duplicate_parse(name, body, pending)
        if len(self._names) >= _MAX_NAMES or self._total_bytes + len(body) > _MAX_TOTAL_BYTES:
            return encode_rejection(_TOO_MANY, pending)
        statement = self._catalog.find_or_add(body, effects, self.context)
        self._add(name, statement)
        prefix = pending.add_statement(statement)
        pending.expect((ReplyKind.PARSE, partial(self._undo_parse, name, statement, pending)))
        return prefix + statement.encode_parse() + _encode_description_check(statement, pending)

    def use(self, name: bytes, pending: PendingReplies) -> tuple[bytes, bytes]:
        """Return the messages to send before a Bind, and the name on the server connection."""
        statement = self._names.get(name)
        if statement is None:
            return b"", UNKNOWN_NAME if name.startswith(NAME_PREFIX) else name
        if statement.effects is not NO_EFFECTS:
            rejection = self._find_rejection(statement, pending)
            if rejection is not None:
                return encode_rejection(rejection, pending), UNUSED_NAME
            pending.record_effects(statement.effects)
        prefix = pending.ensure_prepared(statement)
        if name not in self._described:
            return prefix, statement.name
        if prefix and statement.description_hash is not None and not pending.is_skipping:
            self.is_waiting = True
            return prefix + _encode_description_check(statement, pending) + FLUSH, b""
        if statement.name in pending.changed_statements:
            return encode_rejection(_OTHER_COLUMNS, pending), UNUSED_NAME
        return prefix, statement.name

    def describe(self, name: bytes, pending: PendingReplies) -> tuple[bytes, bytes]:
        statement = self._names.get(name)
        if statement is None:
            pending.expect_unused_description()
            return b"", UNKNOWN_NAME if name.startswith(NAME_PREFIX) else name
        prefix = pending.ensure_prepared(statement)
        pending.expect_description(ReplyKind.DESCRIBE, partial(self._on_described, name, statement, pending))
        return prefix, statement.name

    def get_text(self, name: bytes) -> bytes | None:
        statement = self._names.get(name)
        return None if statement is None else statement.body.partition(b"\0")[0]

    def forget(self, name: bytes) -> Callable[[], None] | None:
        """Forget a name; return how to undo that, or None if there is no such name."""
        statement = self._names.pop(name, None)
        if statement is None:
            return None
        self._release(statement)
        self._described.discard(name)
        if len(self._closed) >= _MAX_CLOSED:
            self._closed.clear()
        self._closed[statement.name] = name
        return partial(self._add, name, statement)

    def forget_all(self) -> None:
        self._names.clear()
        self.server_names.clear()
        self._described.clear()
        self._total_bytes = 0

    def restore_client_names(self, error: bytes) -> bytes:
        """Replace the server names in an error message by the client's names."""
        for server_name, name in {**self._closed, **{each.name: name for name, each in self._names.items()}}.items():
            error = error.replace(b'"%b"' % server_name, b'"%b"' % name)
        return error[:1] + (len(error) - 1).to_bytes(4) + error[5:]

    def _find_rejection(self, statement: PreparedStatement, pending: PendingReplies) -> StatementRejection | None:
        """Return why a statement that leaves session state cannot run outside of a transaction block."""
        if not statement.effects.leaves_state or not pending.is_implicit_transaction:
            return None
        return find_session_effects(statement.body.partition(b"\0")[0], is_transaction=True).rejection

    def _on_described(
        self, name: bytes, statement: PreparedStatement, pending: PendingReplies, description_hash: bytes
    ) -> None:
        self._described.add(name)
        if statement.description_hash is None:
            statement.description_hash = description_hash
        elif statement.description_hash == description_hash:
            pending.changed_statements.discard(statement.name)
        elif self._names.get(name) is statement:
            pending.changed_statements.add(statement.name)
            self._release(statement)
            self._add(name, self._catalog.renew(statement, description_hash))

    def _add(self, name: bytes, statement: PreparedStatement) -> None:
        self._names[name] = statement
        self._total_bytes += len(statement.body)
        self.server_names[statement.name] = self.server_names.get(statement.name, 0) + 1

    def _release(self, statement: PreparedStatement) -> None:
        """Drop one of the client's names of the statement."""
        self._total_bytes -= len(statement.body)
        self.server_names[statement.name] -= 1
        if not self.server_names[statement.name]:
            del self.server_names[statement.name]

    def _undo_parse(self, name: bytes, statement: PreparedStatement, pending: PendingReplies) -> None:
        self.forget(name)
        pending.mark_stale(statement.name)


def encode_rejection(rejection: StatementRejection, pending: PendingReplies) -> bytes:
    """Return a Parse that fails, to send instead of the rejected message."""
    pending.expect_rejection(rejection)
    return PreparedStatement(UNUSED_NAME, rejection.failing_sql() + b"\0\0\0", NO_EFFECTS).encode_parse()


def _encode_description_check(statement: PreparedStatement, pending: PendingReplies) -> bytes:
    """Return a Describe that checks whether the statement has the columns that clients were sent."""
    if statement.description_hash is None:
        return b""
    pending.expect_description(ReplyKind.DESCRIBE_OURS, partial(pending.compare_description, statement))
    return encode_describe(statement.name)


def _encode_duplicate_parse(name: bytes, body: bytes, pending: PendingReplies) -> bytes:
    """Let Postgres report an error in the query or that the name exists; the session is reset afterwards."""
    pending.is_dirty = pending.has_sql_prepared = True
    pending.expect(CLOSE_OURS)
    pending.expect(PARSE_OURS)
    pending.expect((ReplyKind.PARSE, None))
    return encode_empty_statement(name) + PreparedStatement(name, body, NO_EFFECTS).encode_parse()
