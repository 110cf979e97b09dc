"""The part of the gateway protocol in which workers report the activity of endpoints and their pools."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bough.domain.json_fields import invalid_field, parse_count, parse_object, parse_seconds, parse_text
from bough.domain.pooler import PoolStats
from bough.ids import EndpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """The clients and server connections in an endpoint's pools now, and the waits since the last report."""

    clients_active: int = 0
    clients_waiting: int = 0
    clients_idle: int = 0
    servers_active: int = 0
    servers_idle: int = 0
    waits: int = 0  # for a server connection
    waited_seconds: float = 0.0

    @classmethod
    def from_json(cls, body: Any) -> "PoolReport":
        fields = parse_object(body)
        return cls(
            clients_active=parse_count(fields, "clients_active"),
            clients_waiting=parse_count(fields, "clients_waiting"),
            clients_idle=parse_count(fields, "clients_idle"),
            servers_active=parse_count(fields, "servers_active"),
            servers_idle=parse_count(fields, "servers_idle"),
            waits=parse_count(fields, "waits"),
            waited_seconds=parse_seconds(fields, "waited_seconds"),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def stats(self) -> PoolStats:
        return PoolStats(
            clients_active=self.clients_active,
            clients_waiting=self.clients_waiting,
            clients_idle=self.clients_idle,
            servers_active=self.servers_active,
            servers_idle=self.servers_idle,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport:
    """The activity of one endpoint since the worker's last report."""

    endpoint: EndpointId
    bytes_in: int = 0  # from clients
    bytes_out: int = 0  # to clients
    private_in: int = 0  # the part of bytes_in that came from private networks, if the operator named them
    private_out: int = 0  # likewise of bytes_out
    opened: int = 0  # connections opened
    connections: int = 0  # open now
    is_active: bool = False  # bytes were transferred or a connection was opened
    pool: PoolReport | None = None  # None: the endpoint has no pool in this worker

    @classmethod
    def from_json(cls, body: Any) -> "EndpointReport":
        fields = parse_object(body)
        is_active, pool = fields.get("is_active", False), fields.get("pool")
        if not isinstance(is_active, bool):
            raise invalid_field("is_active", "true or false")
        return cls(
            endpoint=EndpointId(parse_text(fields, "endpoint")),
            bytes_in=parse_count(fields, "bytes_in"),
            bytes_out=parse_count(fields, "bytes_out"),
            private_in=parse_count(fields, "private_in"),
            private_out=parse_count(fields, "private_out"),
            opened=parse_count(fields, "opened"),
            connections=parse_count(fields, "connections"),
            is_active=is_active,
            pool=None if pool is None else PoolReport.from_json(pool),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "private_in": self.private_in,
            "private_out": self.private_out,
            "opened": self.opened,
            "connections": self.connections,
            "is_active": self.is_active,
            "pool": self.pool and self.pool.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityReport:
    worker: str
    sequence: int  # the control process counts a report with the same number once
    endpoints: Sequence[EndpointReport]

    @classmethod
    def from_json(cls, body: Any) -> "ActivityReport":
        fields = parse_object(body)
        endpoints = fields.get("endpoints")
        if not isinstance(endpoints, list):
            raise invalid_field("endpoints", "a list")
        return cls(
            worker=parse_text(fields, "worker"),
            sequence=parse_count(fields, "sequence", default=None),
            endpoints=[EndpointReport.from_json(each) for each in endpoints],
        )

    def to_json(self) -> dict[str, Any]:
        endpoints = [each.to_json() for each in self.endpoints]
        return {"worker": self.worker, "sequence": self.sequence, "endpoints": endpoints}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReply:
    changed: Sequence[EndpointId]  # the worker drops its cached access replies about these

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "ReportReply":
        return cls(changed=[EndpointId(name) for name in body["drop"]])

    def to_json(self) -> dict[str, Any]:
        return {"drop": list(self.changed)}
