"""Prepared statements: clients name them, members hold them under names of ours, made again where they are missing."""

import hashlib
import itertools
from collections.abc import Iterator
from weakref import WeakValueDictionary

from bough.gateway.wire.session_effects import SessionEffects

NAME_PREFIX = b"bough_"
SettingsContext = frozenset[tuple[bytes, bytes]]  # settings of a session

UNUSED_NAME = NAME_PREFIX + b"gone"  # a name that no statement has for longer than one message needs


class PreparedStatement:
    """A text with the types of its parameters, as Parse carries them behind the name."""

    __slots__ = ("__weakref__", "body", "context", "description_hash", "effects", "name")

    def __init__(
        self, name: bytes, body: bytes, effects: SessionEffects, context: SettingsContext = frozenset()
    ) -> None:
        self.name = name  # on members
        self.body = body
        self.effects = effects
        self.context = context
        self.description_hash: bytes | None = None  # its parameters and columns, as clients were told

    def encode_parse(self) -> bytes:
        """The message that makes it."""
        return b"P" + (len(self.name) + len(self.body) + 5).to_bytes(4) + self.name + b"\0" + self.body


class StatementCatalog:
    """The statements of a pool's clients: one text, however many clients prepared it, is one statement.

    But only under the same settings, for a text may mean another thing under others; and only while it has
    the same columns.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[bytes, SettingsContext], PreparedStatement] = WeakValueDictionary()
        self._numbers: Iterator[int] = itertools.count(1)

    def find_or_add(self, body: bytes, effects: SessionEffects, context: SettingsContext) -> PreparedStatement:
        return self._known.get((body, context)) or self._add(body, effects, context)

    def renew(self, old: PreparedStatement, description_hash: bytes) -> PreparedStatement:
        """The same text, now that it has other columns; who was told the old ones keeps the old one."""
        known = self._known.get((old.body, old.context))
        if known is None or known.description_hash != description_hash:
            known = self._add(old.body, old.effects, old.context)
            known.description_hash = description_hash
        return known

    def _add(self, body: bytes, look: SessionEffects, context: SettingsContext) -> PreparedStatement:
        statement = PreparedStatement(NAME_PREFIX + b"%d" % next(self._numbers), body, look, context)
        self._known[body, context] = statement
        return statement


def encode_close(name: bytes) -> bytes:
    return b"C" + (len(name) + 6).to_bytes(4) + b"S" + name + b"\0"


def encode_query(text: bytes) -> bytes:
    return b"Q" + (len(text) + 5).to_bytes(4) + text + b"\0"


def encode_describe(name: bytes) -> bytes:
    return b"D" + (len(name) + 6).to_bytes(4) + b"S" + name + b"\0"


def encode_empty_statement(name: bytes) -> bytes:
    """A statement that does nothing, in place of one that may be there."""
    return encode_close(name) + b"P" + (len(name) + 8).to_bytes(4) + name + b"\0\0\0\0"


FLUSH = b"H\0\0\0\x04"


def hash_description(parameters: bytes, columns: bytes) -> bytes:
    """What a client must know to read its rows: not which tables they are from."""
    out = [parameters, columns[:2]]
    at = 2
    for _ in range(int.from_bytes(columns[:2])):
        end = columns.index(0, at) + 1
        out += (columns[at:end], columns[end + 6 : end + 16])
        at = end + 18
    return hashlib.sha256(b"".join(out)).digest()
