"""The queries that reset a session for another client, and that read and restore a client's settings."""

import os
from collections.abc import Iterable, Mapping, Sequence

from bough.gateway.pooling.statements import encode_close, encode_query

# Resets all session state except prepared statements of the protocol, in one transaction. Statements that a function
# has prepared by SQL have unknown names: then the session terminates itself before it reads the next client's messages.
_RESET_EXCEPT_STATEMENTS = (
    b"SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();"
    b"DISCARD TEMP;DISCARD SEQUENCES;"
    b"SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())"
    b" FROM pg_catalog.pg_prepared_statement() WHERE from_sql"
)
_RESET_ALL = b"DISCARD ALL"
ROLLBACK = encode_query(b"ROLLBACK")
_RESEED = b"SET seed TO %.15f"
_SEED_RANGE = 1 << 55
# Settings of the current transaction do not belong to the session.
_READ_SETTINGS = (
    b"SELECT name, setting FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'"
    b" AND name OPERATOR(pg_catalog.!~) '^transaction_'"
    b" UNION ALL SELECT 'role', pg_catalog.current_setting('role')"
)
_READ_CUSTOM_SETTING = b" UNION ALL SELECT %b, pg_catalog.current_setting(%b, true)"
_DEFAULT_ROLE = (b"role", b"none")
# Set last, because they change how the other values are read, or whether they may be set.
_SET_LAST = (b"client_encoding", b"role")


def encode_reset(closed_names: Iterable[bytes] | None) -> bytes:
    """Reset the session and close these statements; None: close all, which is cheaper."""
    if closed_names is None:
        return encode_query(_RESET_ALL)
    return b"".join(map(encode_close, closed_names)) + encode_query(_RESET_EXCEPT_STATEMENTS)


def encode_reseed() -> bytes:
    """Set a random seed, so that no client can predict the next client's random()."""
    return encode_query(_RESEED % (int.from_bytes(os.urandom(7)) / _SEED_RANGE - 1))


def encode_restore_settings(settings: Mapping[bytes, bytes]) -> bytes:
    names = sorted(settings, key=lambda name: (_SET_LAST.index(name) + 1 if name in _SET_LAST else 0, name))
    calls = (b"pg_catalog.set_config(%b,%b,false)" % (_quote(name), _quote(settings[name])) for name in names)
    return encode_query(b"SELECT " + b",".join(calls))


def encode_read_settings(custom: Iterable[bytes]) -> bytes:
    """Query the session's settings, and custom ones by name: Postgres lists only those that extensions declare."""
    return encode_query(
        _READ_SETTINGS + b"".join(_READ_CUSTOM_SETTING % (_quote(name), _quote(name)) for name in sorted(custom))
    )


def parse_settings(rows: Sequence[bytes]) -> dict[bytes, bytes]:
    """Parse the rows of `encode_read_settings`."""
    pairs = [_parse_row(row) for row in rows]
    return {name: value for name, value in pairs if value is not None and (name, value) != _DEFAULT_ROLE}


def _parse_row(row: bytes) -> tuple[bytes, bytes | None]:
    end = 6 + int.from_bytes(row[2:6])
    length = int.from_bytes(row[end : end + 4], signed=True)
    return row[6:end], None if length < 0 else row[end + 4 : end + 4 + length]


def _quote(text: bytes) -> bytes:
    """Quote a literal independently of standard_conforming_strings."""
    return b"E'" + text.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
