"""Pool settings of an endpoint, under the names that PgBouncer uses.

`PoolSettings` has the defaults. A stored value that is invalid is ignored, so that it cannot lock out clients.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bough.errors import Invalid

SETTINGS_KEY = "pgbouncer_settings"  # in the settings of an endpoint
POOL_MODE = "transaction"
MAX_SECONDS = 2_147_483_647
MAX_COUNT = 10_000

_WHOLE = re.compile(r"[0-9]{1,10}")
_DECIMAL = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")
_MIN_POSITIVE = 0.000001  # the smallest positive value that _DECIMAL accepts


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """How the pooled host of an endpoint behaves. Zero seconds means no limit."""

    servers: int = 90  # server connections to the endpoint, of all workers together
    servers_per_pool: int = 90  # of these, for one role and database
    wait_seconds: float = 120.0  # that a client waits for a server connection
    idle_seconds: float = 60.0  # before an idle server connection is closed
    lifetime_seconds: float = 3600.0  # of a server connection
    statements: int = 200  # prepared statements that a server connection keeps
    idle_transaction_seconds: float = 0.0
    client_idle_seconds: float = 0.0
    direct_host_too: bool = False  # the endpoint's plain host is pooled like its `-pooler` host

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "PoolSettings":
        """Accept missing and unknown keys: the sender may be of another version."""
        return cls(**{name: body[name] for name in cls.__slots__ if name in body})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """The clients and server connections of the pools of an endpoint."""

    clients_active: int = 0
    clients_waiting: int = 0
    clients_idle: int = 0
    servers_active: int = 0
    servers_idle: int = 0

    def __add__(self, other: "PoolStats") -> "PoolStats":
        return PoolStats(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    field: str  # of `PoolSettings`
    form: re.Pattern[str]
    number: Callable[[str], float]
    minimum: float
    maximum: float
    use: str  # the accepted values, for error messages

    def read(self, text: str) -> float | None:
        """Return None for an invalid value."""
        if not self.form.fullmatch(text):
            return None
        value = self.number(text)
        return value if self.minimum <= value <= self.maximum else None


def _count(field: str) -> _Setting:
    use = f"a whole number from 1 to {MAX_COUNT}"
    return _Setting(field=field, form=_WHOLE, number=int, minimum=1, maximum=MAX_COUNT, use=use)


def _seconds(field: str) -> _Setting:
    use = f"seconds, such as 30 or 0.5, up to {MAX_SECONDS}; 0 for no limit"
    return _Setting(field=field, form=_DECIMAL, number=float, minimum=0, maximum=MAX_SECONDS, use=use)


_NUMBERS = {
    "default_pool_size": _count("servers_per_pool"),
    "query_wait_timeout": _seconds("wait_seconds"),
    "server_idle_timeout": _seconds("idle_seconds"),
    "server_lifetime": replace(
        _seconds("lifetime_seconds"),
        minimum=_MIN_POSITIVE,
        use=f"seconds above 0, up to {MAX_SECONDS}; 0, a new server connection for every transaction, is not supported",
    ),
    "idle_transaction_timeout": _seconds("idle_transaction_seconds"),
    "client_idle_timeout": _seconds("client_idle_seconds"),
    "max_prepared_statements": replace(
        _count("statements"), use=f"a whole number from 1 to {MAX_COUNT}; prepared statements cannot be disabled"
    ),
}
SUPPORTED_SETTINGS = ("pool_mode", *_NUMBERS)


def check_settings(settings: Mapping[str, str]) -> None:
    """Reject unsupported settings and invalid values; the message says what is supported."""
    for name, text in settings.items():
        if name == "pool_mode":
            check_pool_mode(f"{SETTINGS_KEY}.pool_mode", text)
        elif name not in _NUMBERS:
            raise Invalid(
                f"{SETTINGS_KEY} has {name[:63]!r}, which is not supported. Supported settings: "
                f"{', '.join(SUPPORTED_SETTINGS)}."
            )
        elif _NUMBERS[name].read(text) is None:
            raise Invalid(f"{SETTINGS_KEY}.{name} is {text[:63]!r}: use {_NUMBERS[name].use}.")


def check_pool_mode(name: str, mode: str) -> None:
    if mode != POOL_MODE:
        raise Invalid(
            f"{name} is {mode[:63]!r}: only {POOL_MODE} is supported. For session connections, use the host without "
            "-pooler and leave pooler_enabled false."
        )


def parse_pool_settings(settings: Mapping[str, Any], max_connections: int, *, direct_host_too: bool) -> PoolSettings:
    """Parse the settings of an endpoint. A tenth of its connections is reserved for direct clients."""
    texts: Mapping[str, str] = settings.get(SETTINGS_KEY) or {}
    values: dict[str, Any] = {
        setting.field: value
        for name, setting in _NUMBERS.items()
        if (value := setting.read(texts.get(name, ""))) is not None
    }
    servers = max(1, max_connections * 9 // 10)
    values["servers_per_pool"] = min(values.get("servers_per_pool", servers), servers)
    return PoolSettings(servers=servers, direct_host_too=direct_host_too, **values)
