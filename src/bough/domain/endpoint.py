"""An endpoint: host names that clients connect to, and the compute behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from bough.ids import BranchId, EndpointId, ProjectId, VolumeId


class EndpointType(StrEnum):
    READ_WRITE = "read_write"
    READ_ONLY = "read_only"


class EndpointState(StrEnum):
    INIT = "init"  # created, never started
    ACTIVE = "active"  # accepts connections
    IDLE = "idle"  # suspended; starts on the next connection


TRANSITIONS = {
    EndpointState.INIT: {EndpointState.ACTIVE, EndpointState.IDLE},
    EndpointState.ACTIVE: {EndpointState.IDLE},
    EndpointState.IDLE: {EndpointState.ACTIVE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    id: EndpointId
    project_id: ProjectId
    branch_id: BranchId
    type: EndpointType
    state: EndpointState
    pending_state: EndpointState | None
    min_cu: float
    max_cu: float
    settings: Mapping[str, Any]
    pooler_enabled: bool  # whether the host without `-pooler` is pooled too
    disabled: bool
    passwordless_access: bool
    suspend_timeout_seconds: int
    provisioner: str
    creation_source: str
    created_at: datetime
    updated_at: datetime
    last_active: datetime | None = None
    started_at: datetime | None = None
    suspended_at: datetime | None = None
    deleted_at: datetime | None = None
    name: str | None = None
    volume_id: VolumeId | None = None  # the copy of a read replica; None: it uses the volume of its branch

    @property
    def is_active_or_starting(self) -> bool:
        return EndpointState.ACTIVE in (self.state, self.pending_state)

    @property
    def is_running_replica(self) -> bool:
        return self.type is EndpointType.READ_ONLY and self.state is EndpointState.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointHosts:
    """Host names of endpoints. A port other than 5432 is part of the host."""

    domain: str
    port: int

    def proxy_host(self, region_id: str) -> str:
        cloud, region = region_id.split("-", 1)
        return f"{region}.{cloud}.{self.domain}{self._suffix}"

    def direct_host(self, endpoint: EndpointId, region_id: str) -> str:
        return f"{endpoint}.{self.proxy_host(region_id)}"

    def pooled_host(self, endpoint: EndpointId, region_id: str) -> str:
        return f"{endpoint}-pooler.{self.proxy_host(region_id)}"

    @property
    def _suffix(self) -> str:
        return "" if self.port == 5432 else f":{self.port}"


def max_connections(cu: float) -> int:
    """`max_connections` of a compute with this maximum size."""
    return min(4000, max(100, int(cu * 450)))


def request_state(endpoint: Endpoint, to: EndpointState, now: datetime) -> Endpoint:
    """Set the state that the endpoint is moving to; none when it is already there."""
    pending = None if endpoint.state == to else to
    return replace(endpoint, pending_state=pending, updated_at=now)


def transition_endpoint(endpoint: Endpoint, to: EndpointState, now: datetime) -> Endpoint:
    """Change the state, and `started_at` and `suspended_at` with it."""
    if endpoint.state == to:
        return replace(endpoint, pending_state=None)
    if to not in TRANSITIONS[endpoint.state]:
        raise ValueError(f"endpoint {endpoint.id} cannot move from {endpoint.state} to {to}")
    changed = replace(endpoint, state=to, pending_state=None, updated_at=now)
    if to is EndpointState.ACTIVE:
        return replace(changed, started_at=now, last_active=now, suspended_at=None)
    return replace(changed, suspended_at=now)


def reset_after_failed_start(endpoint: Endpoint, now: datetime) -> Endpoint:
    """An endpoint that was active becomes idle; any other keeps its state."""
    if endpoint.state is EndpointState.ACTIVE:
        return transition_endpoint(endpoint, EndpointState.IDLE, now)
    return replace(endpoint, pending_state=None)
