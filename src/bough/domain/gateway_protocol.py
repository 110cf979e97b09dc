"""The protocol between the gateway's workers and the control process, defined once for both sides.

Workers send requests over HTTP to the socket of the control process: access, wake and report (`gateway_reports`). It
sends notifications to the socket of each worker: invalidate endpoints, set hints and end sessions. The JSON keys and
the values of the names below must stay as they are: a worker of the previous version that drains its connections talks
to a newer control process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from bough.domain.json_fields import parse_object, parse_text
from bough.domain.pooler import PoolSettings
from bough.domain.private_networks import BlockedNetworks
from bough.errors import ErrorKind
from bough.ids import EndpointId

PATH_PREFIX = "/plane/v1"
ACCESS_PATH = f"{PATH_PREFIX}/access"
WAKE_PATH = f"{PATH_PREFIX}/wake"
REPORT_PATH = f"{PATH_PREFIX}/report"

INVALIDATE_ENDPOINTS = "forget"  # the body is a list of endpoint ids
SET_HINTS = "hint"  # the body maps endpoint ids to hints
END_SESSIONS = "end"  # the body is an EndSessions

REPLY_TIMEOUT_SECONDS = 10.0
CONTROL_RETRY_SECONDS = 10.0  # a restart of the control process takes less
NOTIFICATION_TIMEOUT_SECONDS = 1.0  # for a busy worker
# Each limit on a wake is longer than the one inside it, so that the innermost reports why the wake failed:
# the setting wake_seconds (60 s by default) in the control process, then the client's, then the worker's request.
CLIENT_WAKE_TIMEOUT_SECONDS = 90.0
WAKE_REPLY_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    endpoint: EndpointId
    role: str

    @classmethod
    def from_json(cls, body: Any) -> "AccessRequest":
        fields = parse_object(body)
        return cls(endpoint=EndpointId(parse_text(fields, "endpoint")), role=parse_text(fields, "role"))

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
    blocked_hint: str | None = None  # what to do about it
    read_only_hint: str | None = None  # added to the error of a rejected write; None: writes are allowed
    blocked_networks: BlockedNetworks = field(default_factory=BlockedNetworks)
    is_audited: bool = False  # the worker logs the addresses of its clients

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
            blocked_hint=body.get("closed_hint"),
            read_only_hint=body.get("read_only_hint"),
            blocked_networks=BlockedNetworks.from_json(body.get("blocked_networks", {})),
            is_audited=bool(body.get("is_audited")),
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
            "closed_hint": self.blocked_hint,
            "read_only_hint": self.read_only_hint,
            "blocked_networks": self.blocked_networks.to_json(),
            "is_audited": self.is_audited,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeRequest:
    endpoint: EndpointId

    @classmethod
    def from_json(cls, body: Any) -> "WakeRequest":
        return cls(endpoint=EndpointId(parse_text(parse_object(body), "endpoint")))

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
