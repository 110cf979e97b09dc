"""Instant databases: a Postgres in one call, without an account; whoever has its claim URL may claim it.

The id, the connection string and the claim URL are secrets of whoever asked: none of them is in a `repr`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from bough_client.errors import ClientError
from bough_client.transport import is_http_url, request

_PREFIX = "/api/v1"
_POOLED = "-pooler"
# What a percent-encoded URL is made of, without what a shell or an environment file might read as its own.
_URL = re.compile(r"[A-Za-z0-9._~:/?@%&=+,;!*()\[\]-]+")


@dataclass(frozen=True, slots=True)
class InstantDatabaseResponse:
    id: str = field(repr=False)
    status: str  # UNCLAIMED, CLAIMING or CLAIMED
    project_id: str
    connection_string: str | None = field(repr=False)  # pooled; None once it is claimed
    claim_url: str = field(repr=False)
    expires_at: datetime
    created_at: datetime
    updated_at: datetime

    def connection_strings(self) -> tuple[str, str]:
        """Pooled and direct."""
        if self.connection_string is None:
            raise ClientError("The database is claimed, so its connection strings are no longer given away.")
        return self.connection_string, direct_connection_string(self.connection_string)


@dataclass(frozen=True, slots=True)
class InstantClient:
    """Where instant databases come from: the address of a platform, with or without the path of this API."""

    base_url: str

    def create(self, ref: str, *, logical_replication: bool = False) -> InstantDatabaseResponse:
        """A new database; `ref` says who refers to it and must not be empty."""
        body = {"ref": ref, "enable_logical_replication": logical_replication}
        made = self._read(self._request("POST", "/database", body))
        if made.connection_string is None:
            raise self._make_format_error()
        return made

    def get(self, database_id: str) -> InstantDatabaseResponse:
        return self._read(self._request("GET", f"/database/{quote(database_id, safe='')}"))

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        root = self.base_url.rstrip("/").removesuffix(_PREFIX)
        return request(root, method, _PREFIX + path, body)

    def _read(self, found: Mapping[str, Any]) -> InstantDatabaseResponse:
        try:
            return _database(found)
        except (KeyError, TypeError, ValueError):
            raise self._make_format_error() from None

    def _make_format_error(self) -> ClientError:
        return ClientError(f"The answer of {self.base_url} is no instant database.")


def direct_connection_string(connection_string: str) -> str:
    """The same without the pool: the first `-pooler` of the host is taken out, and nothing else."""
    scheme, between, rest = connection_string.partition("://")
    end = min((at for sign in "/?#" if (at := rest.find(sign)) >= 0), default=len(rest))
    login, sign, host = rest[:end].rpartition("@")
    return scheme + between + login + sign + host.replace(_POOLED, "", 1) + rest[end:]


def _database(found: Mapping[str, Any]) -> InstantDatabaseResponse:
    connection_string, claim_url = found["connection_string"], found["claim_url"]
    if connection_string is not None and not _is_postgres(connection_string):
        raise ValueError("connection_string")
    if not (_URL.fullmatch(claim_url) and is_http_url(claim_url)):
        raise ValueError("claim_url")
    return InstantDatabaseResponse(
        id=_text(found, "id"),
        status=_text(found, "status"),
        project_id=_text(found, "neon_project_id"),
        connection_string=connection_string,
        claim_url=claim_url,
        expires_at=_timestamp(found, "expires_at"),
        created_at=_timestamp(found, "created_at"),
        updated_at=_timestamp(found, "updated_at"),
    )


def _is_postgres(text: str) -> bool:
    parts = urlsplit(text)
    _ = parts.port
    return bool(_URL.fullmatch(text)) and parts.scheme in {"postgres", "postgresql"} and bool(parts.hostname)


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _timestamp(found: Mapping[str, Any], name: str) -> datetime:
    moment = datetime.fromisoformat(_text(found, name))
    if moment.tzinfo is None:
        raise ValueError(name)
    return moment
