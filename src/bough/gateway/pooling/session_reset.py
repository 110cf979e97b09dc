"""What Postgres is told when a session changes hands, and how a client's settings are read and brought back."""

import os
from collections.abc import Iterable, Mapping, Sequence

from bough.gateway.pooling.statements import encode_close, encode_query

# All that a session can keep, but for prepared statements of the protocol. In one transaction, so that it is done whole
# or not at all. What a function has prepared by SQL has a name that nobody knows: then the session ends itself, before
# it reads what the next client says.
_KEEPING_STATEMENTS = (
    b"SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();"
    b"DISCARD TEMP;DISCARD SEQUENCES;"
    b"SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())"
    b" FROM pg_catalog.pg_prepared_statement() WHERE from_sql"
)
_ALL = b"DISCARD ALL"
ROLLBACK = encode_query(b"ROLLBACK")
_RESEED = b"SET seed TO %.15f"
_MOST_SEED = 1 << 55
# What a transaction is begun with belongs to no session.
_SETTINGS = (
    b"SELECT name, setting FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'"
    b" AND name OPERATOR(pg_catalog.!~) '^transaction_'"
    b" UNION ALL SELECT 'role', pg_catalog.current_setting('role')"
)
_CUSTOM = b" UNION ALL SELECT %b, pg_catalog.current_setting(%b, true)"
_NO_ROLE = (b"role", b"none")
# These read others, or decide how others are read.
_LAST = (b"client_encoding", b"role")


def encode_reset(closed_names: Iterable[bytes] | None) -> bytes:
    """Of all but the statements that are not leaving; None: of these too, which is the cheaper one."""
    return (
        encode_query(_ALL)
        if closed_names is None
        else b"".join(map(encode_close, closed_names)) + encode_query(_KEEPING_STATEMENTS)
    )


def encode_reseed() -> bytes:
    """Nobody shall know what the next client gets from random()."""
    return encode_query(_RESEED % (int.from_bytes(os.urandom(7)) / _MOST_SEED - 1))


def encode_restore_settings(settings: Mapping[bytes, bytes]) -> bytes:
    names = sorted(settings, key=lambda name: (_LAST.index(name) + 1 if name in _LAST else 0, name))
    calls = (b"pg_catalog.set_config(%b,%b,false)" % (_quoted(name), _quoted(settings[name])) for name in names)
    return encode_query(b"SELECT " + b",".join(calls))


def encode_read_settings(custom: Iterable[bytes]) -> bytes:
    """Those with a dot in their name are asked for by it: Postgres lists only what an extension has declared."""
    return encode_query(_SETTINGS + b"".join(_CUSTOM % (_quoted(name), _quoted(name)) for name in sorted(custom)))


def parse_settings(rows: Sequence[bytes]) -> dict[bytes, bytes]:
    """Of the rows that the question for them brought."""
    pairs = [_pair(row) for row in rows]
    return {name: value for name, value in pairs if value is not None and (name, value) != _NO_ROLE}


def _pair(row: bytes) -> tuple[bytes, bytes | None]:
    end = 6 + int.from_bytes(row[2:6])
    length = int.from_bytes(row[end : end + 4], signed=True)
    return row[6:end], None if length < 0 else row[end + 4 : end + 4 + length]


def _quoted(text: bytes) -> bytes:
    """Read alike whatever standard_conforming_strings says."""
    return b"E'" + text.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
