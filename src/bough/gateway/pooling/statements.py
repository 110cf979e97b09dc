"""Prepared statements: clients name them, and server connections hold them under names of the gateway's own."""

import hashlib
import itertools
from collections.abc import Iterator
from weakref import WeakValueDictionary

from bough.gateway.wire.session_effects import SessionEffects

NAME_PREFIX = b"bough_"
SettingsContext = frozenset[tuple[bytes, bytes]]  # the settings of a session

UNUSED_NAME = NAME_PREFIX + b"gone"  # no statement has this name for longer than one message


class PreparedStatement:
    """A query with its parameter types, in the form that Parse carries after the name."""

    __slots__ = ("__weakref__", "body", "context", "description_hash", "effects", "name")

    def __init__(
        self, name: bytes, body: bytes, effects: SessionEffects, context: SettingsContext = frozenset()
    ) -> None:
        self.name = name  # on server connections
        self.body = body
        self.effects = effects
        self.context = context
        self.description_hash: bytes | None = None  # of the parameters and columns that clients were sent

    def encode_parse(self) -> bytes:
        return b"P" + (len(self.name) + len(self.body) + 5).to_bytes(4) + self.name + b"\0" + self.body


class UnnamedStatement:
    """The unnamed prepared statement of one client, updated as Postgres confirms each Parse and Close.

    Messages whose replies are pending may still fail, or be skipped because of an earlier error.
    """

    __slots__ = ("statement",)

    def __init__(self) -> None:
        # One that was too long to be read whole has an empty body, and cannot be prepared again.
        self.statement: PreparedStatement | None = None


class StatementCatalog:
    """The statements of a pool's clients. Clients that prepare the same query share one statement.

    They share it only under the same settings, because the same query can mean something else under others,
    and only while it has the same columns.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[bytes, SettingsContext], PreparedStatement] = WeakValueDictionary()
        self._numbers: Iterator[int] = itertools.count(1)

    def find_or_add(self, body: bytes, effects: SessionEffects, context: SettingsContext) -> PreparedStatement:
        return self._known.get((body, context)) or self._add(body, effects, context)

    def renew(self, old: PreparedStatement, description_hash: bytes) -> PreparedStatement:
        """Return a statement for the same query with other columns; clients that know the old ones keep `old`."""
        known = self._known.get((old.body, old.context))
        if known is None or known.description_hash != description_hash:
            known = self._add(old.body, old.effects, old.context)
            known.description_hash = description_hash
        return known

    def _add(self, body: bytes, effects: SessionEffects, context: SettingsContext) -> PreparedStatement:
        statement = PreparedStatement(NAME_PREFIX + b"%d" % next(self._numbers), body, effects, context)
        self._known[body, context] = statement
        return statement


def encode_close(name: bytes) -> bytes:
    return b"C" + (len(name) + 6).to_bytes(4) + b"S" + name + b"\0"


def encode_query(text: bytes) -> bytes:
    return b"Q" + (len(text) + 5).to_bytes(4) + text + b"\0"


def encode_describe(name: bytes) -> bytes:
    return b"D" + (len(name) + 6).to_bytes(4) + b"S" + name + b"\0"


def encode_empty_statement(name: bytes) -> bytes:
    """Replace whatever statement has this name by an empty one."""
    return encode_close(name) + b"P" + (len(name) + 8).to_bytes(4) + name + b"\0\0\0\0"


FLUSH = b"H\0\0\0\x04"


def hash_description(parameters: bytes, columns: bytes) -> bytes:
    """Hash what a client needs to read the rows, without the tables that the columns come from."""
    hashed = [parameters, columns[:2]]
    at = 2
    for _ in range(int.from_bytes(columns[:2])):
        end = columns.index(0, at) + 1
        hashed += (columns[at:end], columns[end + 6 : end + 16])
        at = end + 18
    return hashlib.sha256(b"".join(hashed)).digest()
