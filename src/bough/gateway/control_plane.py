"""What the gateway asks of control: who may enter, where is it; and what it reports."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Protocol, TypeVar

from bough.errors import Unavailable
from bough.ids import EndpointId

Network = IPv4Network | IPv6Network

RETRY_SECONDS = 10.0  # seconds; a restart of control is shorter
_PAUSE = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """How an endpoint's pooled host behaves; 0 seconds: for ever."""

    servers: int = 90  # connections to Postgres that all workers together may have at the endpoint
    servers_per_pool: int = 90  # of one role and database
    wait_seconds: float = 120.0  # for a server connection
    idle_seconds: float = 60.0  # that a server connection may rest
    lifetime_seconds: float = 3600.0  # of a server connection
    statements: int = 200  # prepared ones that a server connection keeps
    idle_transaction_seconds: float = 0.0
    client_idle_seconds: float = 0.0
    direct_host_too: bool = False

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> "PoolSettings":
        """A control of another version may say less or more."""
        return cls(**{name: answer[name] for name in cls.__slots__ if name in answer})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    verifier: str  # of chance, when there is nobody of that name
    is_known: bool
    valid_until: datetime | None  # when the password ends
    allowed_networks: tuple[Network, ...] | None  # None: from everywhere
    rejection: str | None  # why this role cannot enter, whatever its password
    pool_settings: PoolSettings = PoolSettings()
    blocked_reason: str | None = None  # why nobody enters now; only for whoever has the right password
    read_only_hint: str | None = None  # for whoever cannot write

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> "Access":
        until, networks = answer["valid_until"], answer["networks"]
        return cls(
            verifier=answer["verifier"],
            is_known=answer["is_known"],
            valid_until=None if until is None else datetime.fromisoformat(until),
            allowed_networks=None if networks is None else tuple(ip_network(text) for text in networks),
            rejection=answer["refusal"],
            pool_settings=PoolSettings.from_json(answer.get("pool", {})),
            blocked_reason=answer.get("closed"),
            read_only_hint=answer.get("read_only_hint"),
        )

    def to_json(self) -> dict[str, Any]:
        until, networks = self.valid_until, self.allowed_networks
        return {
            "verifier": self.verifier,
            "is_known": self.is_known,
            "valid_until": None if until is None else until.isoformat(),
            "networks": None if networks is None else [str(network) for network in networks],
            "refusal": self.rejection,
            "pool": asdict(self.pool_settings),
            "closed": self.blocked_reason,
            "read_only_hint": self.read_only_hint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAddress:
    """In libpq's terms: a host that begins with `/` is a socket folder."""

    host: str
    port: int

    @property
    def socket_path(self) -> str:
        return f"{self.host}/.s.PGSQL.{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """Who is at an endpoint's pools now, and who waited since the last report."""

    clients_active: int
    clients_waiting: int
    clients_idle: int
    servers_active: int
    servers_idle: int
    waits: int
    waited_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport:
    """What one endpoint had since the last report."""

    endpoint: EndpointId
    bytes_in: int  # from clients
    bytes_out: int
    opened: int  # connections that were opened
    connections: int  # that are open now
    is_active: bool
    pool: PoolReport | None = None  # None: nobody is at its pools


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityReport:
    worker: str
    sequence: int  # the same one twice counts once
    endpoints: Sequence[EndpointReport]


class ControlUnavailable(Unavailable):
    """Control does not answer; it may be restarting."""


class ControlPlane(Protocol):
    async def get_access(self, endpoint: EndpointId, role: str) -> Access: ...

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        """Comes back when the compute accepts connections."""

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        """Endpoints of which nothing shall be remembered any longer."""


async def retry_while_unavailable(request: Callable[[], Awaitable[T]]) -> T:
    """Ask again while control is away, for a while: a client would rather wait than try again itself."""
    for _ in range(int(RETRY_SECONDS / _PAUSE)):
        try:
            return await request()
        except ControlUnavailable:
            await asyncio.sleep(_PAUSE)
    return await request()
