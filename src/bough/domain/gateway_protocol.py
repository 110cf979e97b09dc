"""The protocol between the gateway's workers and the control process, defined once for both sides.

Workers send requests over HTTP to control's socket: access, wake and report. Control sends notifications to
the socket of each worker: forget, hint and end. The JSON keys must stay as they are: a worker of the previous
version that drains its connections talks to a newer control process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from bough.domain.pooler import PoolSettings, PoolStats
from bough.errors import ErrorKind, Invalid
from bough.ids import EndpointId

PATH_PREFIX = "/plane/v1"
ACCESS_PATH = f"{PATH_PREFIX}/access"
WAKE_PATH = f"{PATH_PREFIX}/wake"
REPORT_PATH = f"{PATH_PREFIX}/report"

FORGET = "forget"  # the body is a list of endpoint ids
HINT = "hint"  # the body maps endpoint ids to hints
END = "end"  # the body is an EndSessions

REPLY_TIMEOUT_SECONDS = 10.0
CONTROL_RETRY_SECONDS = 10.0  # a restart of control takes less
NOTIFICATION_TIMEOUT_SECONDS = 1.0  # for a busy worker
# Each limit on a wake is longer than the one inside it, so that the innermost reports why the wake failed:
# the setting wake_seconds (60 s by default) in control, then the client's, then the worker's request.
CLIENT_WAKE_TIMEOUT_SECONDS = 90.0
WAKE_REPLY_TIMEOUT_SECONDS = 120.0

_MAX_TEXT_LENGTH = 1024
_MAX_NUMBER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    endpoint: EndpointId
    role: str

    @classmethod
    def from_json(cls, body: Any) -> "AccessRequest":
        fields = _object(body)
        return cls(endpoint=EndpointId(_text(fields, "endpoint")), role=_text(fields, "role"))

    def to_json(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "role": self.role}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    verifier: str  # a random one that no password matches if the role does not exist
    is_known: bool
    valid_until: datetime | None  # when the role's password expires
    allowed_networks: tuple[str, ...] | None  # in CIDR notation; None: all
    rejection: str | None  # why this role cannot log in with any password
    pool_settings: PoolSettings = field(default_factory=PoolSettings)
    blocked_reason: str | None = None  # why the endpoint accepts no clients now; shown after the password is verified
    read_only_hint: str | None = None  # added to the error of a rejected write; None: writes are allowed

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Access":
        until, networks = body["valid_until"], body["networks"]
        return cls(
            verifier=body["verifier"],
            is_known=body["is_known"],
            valid_until=None if until is None else datetime.fromisoformat(until),
            allowed_networks=None if networks is None else tuple(networks),
            rejection=body["refusal"],
            pool_settings=PoolSettings.from_json(body.get("pool", {})),
            blocked_reason=body.get("closed"),
            read_only_hint=body.get("read_only_hint"),
        )

    def to_json(self) -> dict[str, Any]:
        until = self.valid_until
        return {
            "verifier": self.verifier,
            "is_known": self.is_known,
            "valid_until": None if until is None else until.isoformat().replace("+00:00", "Z"),
            "networks": self.allowed_networks,
            "refusal": self.rejection,
            "pool": asdict(self.pool_settings),
            "closed": self.blocked_reason,
            "read_only_hint": self.read_only_hint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeRequest:
    endpoint: EndpointId

    @classmethod
    def from_json(cls, body: Any) -> "WakeRequest":
        return cls(endpoint=EndpointId(_text(_object(body), "endpoint")))

    def to_json(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAddress:
    """Where a compute listens, in libpq's terms: a host that begins with `/` is a socket directory."""

    host: str
    port: int

    @property
    def socket_path(self) -> str:
        return f"{self.host}/.s.PGSQL.{self.port}"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "ComputeAddress":
        return cls(host=body["host"], port=body["port"])

    def to_json(self) -> dict[str, Any]:
        return {"host": self.host, "port": self.port}


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
        fields = _object(body)
        return cls(
            clients_active=_count(fields, "clients_active"),
            clients_waiting=_count(fields, "clients_waiting"),
            clients_idle=_count(fields, "clients_idle"),
            servers_active=_count(fields, "servers_active"),
            servers_idle=_count(fields, "servers_idle"),
            waits=_count(fields, "waits"),
            waited_seconds=_seconds(fields, "waited_seconds"),
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
    opened: int = 0  # connections opened
    connections: int = 0  # open now
    is_active: bool = False  # bytes were transferred or a connection was opened
    pool: PoolReport | None = None  # None: the endpoint has no pool in this worker

    @classmethod
    def from_json(cls, body: Any) -> "EndpointReport":
        fields = _object(body)
        is_active, pool = fields.get("is_active", False), fields.get("pool")
        if not isinstance(is_active, bool):
            raise _invalid("is_active", "true or false")
        return cls(
            endpoint=EndpointId(_text(fields, "endpoint")),
            bytes_in=_count(fields, "bytes_in"),
            bytes_out=_count(fields, "bytes_out"),
            opened=_count(fields, "opened"),
            connections=_count(fields, "connections"),
            is_active=is_active,
            pool=None if pool is None else PoolReport.from_json(pool),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "opened": self.opened,
            "connections": self.connections,
            "is_active": self.is_active,
            "pool": self.pool and self.pool.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityReport:
    worker: str
    sequence: int  # control counts a report with the same number once
    endpoints: Sequence[EndpointReport]

    @classmethod
    def from_json(cls, body: Any) -> "ActivityReport":
        fields = _object(body)
        endpoints = fields.get("endpoints")
        if not isinstance(endpoints, list):
            raise _invalid("endpoints", "a list")
        return cls(
            worker=_text(fields, "worker"),
            sequence=_count(fields, "sequence", default=None),
            endpoints=[EndpointReport.from_json(each) for each in endpoints],
        )

    def to_json(self) -> dict[str, Any]:
        endpoints = [each.to_json() for each in self.endpoints]
        return {"worker": self.worker, "sequence": self.sequence, "endpoints": endpoints}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReply:
    changed: Sequence[EndpointId]  # the worker drops its cached answers about these

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "ReportReply":
        return cls(changed=[EndpointId(name) for name in body["drop"]])

    def to_json(self) -> dict[str, Any]:
        return {"drop": list(self.changed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply:
    kind: ErrorKind
    message: str

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "ErrorReply":
        return cls(kind=ErrorKind(body["kind"]), message=str(body["message"]))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSessions:
    """The compute of these endpoints is about to stop."""

    endpoints: Sequence[EndpointId]
    reason: str  # sent to the clients that are idle

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "EndSessions":
        return cls(endpoints=[EndpointId(name) for name in body["endpoints"]], reason=str(body["why"]))

    def to_json(self) -> dict[str, Any]:
        return {"endpoints": list(self.endpoints), "why": self.reason}


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise Invalid("The request is not valid: it must be a JSON object.")
    return body


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH or "\0" in value or not _can_encode(value):
        raise _invalid(key, f"a string of at most {_MAX_TEXT_LENGTH} characters, without NUL")
    return value


def _can_encode(text: str) -> bool:
    """JSON can carry lone surrogates, which no database stores."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _count(fields: Mapping[str, Any], key: str, *, default: int | None = 0) -> int:
    value = fields.get(key, default)
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise _invalid(key, f"a whole number from 0 to {_MAX_NUMBER}")
    return value


def _seconds(fields: Mapping[str, Any], key: str) -> float:
    value = fields.get(key, 0.0)
    if type(value) not in (int, float) or not 0 <= value <= _MAX_NUMBER:  # NaN and infinity are outside of it too
        raise _invalid(key, f"a number from 0 to {_MAX_NUMBER}")
    return float(value)


def _invalid(key: str, expected: str) -> Invalid:
    return Invalid(f"The request is not valid: {key} must be {expected}.")
