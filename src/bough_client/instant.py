"""Instant databases: a Postgres database in one call, without an account. Anyone who has the claim URL can claim it.

The id, the connection string and the claim URL are secrets, so `repr` omits them.
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
# The characters of a percent-encoded URL, except those with a meaning in a shell or an environment file.
_URL = re.compile(r"[A-Za-z0-9._~:/?@%&=+,;!*()\[\]-]+")


@dataclass(frozen=True, slots=True)
class InstantDatabaseResponse:
    id: str = field(repr=False)
    status: str  # UNCLAIMED, CLAIMING or CLAIMED
    project_id: str
    connection_string: str | None = field(repr=False)  # pooled; None after the database was claimed
    claim_url: str = field(repr=False)
    expires_at: datetime
    created_at: datetime
    updated_at: datetime

    def connection_strings(self) -> tuple[str, str]:
        """The pooled and the direct connection string."""
        if self.connection_string is None:
            raise ClientError("The database is claimed, so its connection strings are no longer available.")
        return self.connection_string, direct_connection_string(self.connection_string)


@dataclass(frozen=True, slots=True)
class InstantClient:
    """Calls the platform at `base_url`, which may include the path of this API."""

    base_url: str

    def create(self, ref: str, *, logical_replication: bool = False) -> InstantDatabaseResponse:
        """Creates a database; `ref` identifies the referrer and must not be empty."""
        body = {"ref": ref, "enable_logical_replication": logical_replication}
        database = self._parse(self._request("POST", "/database", body))
        if database.connection_string is None:
            raise self._make_format_error()
        return database

    def get(self, database_id: str) -> InstantDatabaseResponse:
        return self._parse(self._request("GET", f"/database/{quote(database_id, safe='')}"))

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        root = self.base_url.rstrip("/").removesuffix(_PREFIX)
        return request(root, method, _PREFIX + path, body)

    def _parse(self, content: Mapping[str, Any]) -> InstantDatabaseResponse:
        try:
            return _parse_database(content)
        except (KeyError, TypeError, ValueError):
            raise self._make_format_error() from None

    def _make_format_error(self) -> ClientError:
        return ClientError(f"The response of {self.base_url} is not an instant database.")


def direct_connection_string(connection_string: str) -> str:
    """Bypasses the pooler: removes the first `-pooler` from the host and changes nothing else."""
    scheme, separator, rest = connection_string.partition("://")
    end = min((index for mark in "/?#" if (index := rest.find(mark)) >= 0), default=len(rest))
    user_info, at, host = rest[:end].rpartition("@")
    return scheme + separator + user_info + at + host.replace(_POOLED, "", 1) + rest[end:]


def _parse_database(content: Mapping[str, Any]) -> InstantDatabaseResponse:
    connection_string, claim_url = content["connection_string"], content["claim_url"]
    if connection_string is not None and not _is_postgres_url(connection_string):
        raise ValueError("connection_string")
    if not (_URL.fullmatch(claim_url) and is_http_url(claim_url)):
        raise ValueError("claim_url")
    return InstantDatabaseResponse(
        id=_text(content, "id"),
        status=_text(content, "status"),
        project_id=_text(content, "neon_project_id"),
        connection_string=connection_string,
        claim_url=claim_url,
        expires_at=_timestamp(content, "expires_at"),
        created_at=_timestamp(content, "created_at"),
        updated_at=_timestamp(content, "updated_at"),
    )


def _is_postgres_url(text: str) -> bool:
    parts = urlsplit(text)
    _ = parts.port
    return bool(_URL.fullmatch(text)) and parts.scheme in {"postgres", "postgresql"} and bool(parts.hostname)


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _timestamp(content: Mapping[str, Any], name: str) -> datetime:
    timestamp = datetime.fromisoformat(_text(content, name))
    if timestamp.tzinfo is None:
        raise ValueError(name)
    return timestamp
