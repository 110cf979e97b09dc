"""An endpoint: a host that clients connect to and the compute behind it."""

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
    INIT = "init"  # known, never started
    ACTIVE = "active"  # accepts connections
    IDLE = "idle"  # stopped; wakes on connect


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
    pooler_enabled: bool  # whether the plain host is pooled too; the `-pooler` one always is
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
    volume_id: VolumeId | None = None  # a read replica's own; None: it serves its branch's

    @property
    def is_running_replica(self) -> bool:
        return self.type is EndpointType.READ_ONLY and self.state is EndpointState.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointHosts:
    """Where clients connect: the port is part of a host when it is not Postgres's own."""

    domain: str
    port: int

    def proxy_host(self, region_id: str) -> str:
        cloud, place = region_id.split("-", 1)
        return f"{place}.{cloud}.{self.domain}{self._suffix}"

    def direct_host(self, endpoint: EndpointId, region_id: str) -> str:
        return f"{endpoint}.{self.proxy_host(region_id)}"

    def pooled_host(self, endpoint: EndpointId, region_id: str) -> str:
        return f"{endpoint}-pooler.{self.proxy_host(region_id)}"

    @property
    def _suffix(self) -> str:
        return "" if self.port == 5432 else f":{self.port}"


def max_connections(cu: float) -> int:
    """Of a compute that may grow to this size."""
    return min(4000, max(100, int(cu * 450)))


def request_state(endpoint: Endpoint, to: EndpointState, now: datetime) -> Endpoint:
    """The endpoint on its way to a state; nothing pends when it is already there."""
    pending = None if endpoint.state == to else to
    return replace(endpoint, pending_state=pending, updated_at=now)


def transition_endpoint(endpoint: Endpoint, to: EndpointState, now: datetime) -> Endpoint:
    """The endpoint arrived: `started_at` and `suspended_at` follow the state."""
    if endpoint.state == to:
        return replace(endpoint, pending_state=None)
    if to not in TRANSITIONS[endpoint.state]:
        raise ValueError(f"endpoint {endpoint.id} cannot move from {endpoint.state} to {to}")
    arrived = replace(endpoint, state=to, pending_state=None, updated_at=now)
    if to is EndpointState.ACTIVE:
        return replace(arrived, started_at=now, last_active=now, suspended_at=None)
    return replace(arrived, suspended_at=now)


def reset_after_failed_start(endpoint: Endpoint, now: datetime) -> Endpoint:
    """After a start that failed: one that never ran stays new, one that ran sleeps."""
    if endpoint.state is EndpointState.ACTIVE:
        return transition_endpoint(endpoint, EndpointState.IDLE, now)
    return replace(endpoint, pending_state=None)
