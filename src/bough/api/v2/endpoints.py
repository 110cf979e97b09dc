"""Endpoints: how they are shown."""

from datetime import datetime
from typing import Any, Literal

from bough.api.shapes import View
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, Hosts


class EndpointView(View):
    host: str
    id: str
    project_id: str
    branch_id: str
    autoscaling_limit_min_cu: float
    autoscaling_limit_max_cu: float
    region_id: str
    type: EndpointType
    current_state: EndpointState
    pending_state: EndpointState | None
    settings: dict[str, Any]
    pooler_enabled: bool
    pooler_mode: Literal["transaction"]
    disabled: bool
    passwordless_access: bool
    last_active: datetime | None
    creation_source: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    suspended_at: datetime | None
    proxy_host: str
    suspend_timeout_seconds: int
    provisioner: str

    @classmethod
    def of(cls, endpoint: Endpoint, region_id: str, hosts: Hosts) -> "EndpointView":
        return cls(
            host=hosts.direct(endpoint.id, region_id),
            id=endpoint.id,
            project_id=endpoint.project_id,
            branch_id=endpoint.branch_id,
            autoscaling_limit_min_cu=endpoint.min_cu,
            autoscaling_limit_max_cu=endpoint.max_cu,
            region_id=region_id,
            type=endpoint.type,
            current_state=endpoint.state,
            pending_state=endpoint.pending_state,
            settings=dict(endpoint.settings),
            pooler_enabled=endpoint.pooler_enabled,
            pooler_mode="transaction",
            disabled=endpoint.disabled,
            passwordless_access=endpoint.passwordless_access,
            last_active=endpoint.last_active,
            creation_source=endpoint.creation_source,
            created_at=endpoint.created_at,
            updated_at=endpoint.updated_at,
            started_at=endpoint.started_at,
            suspended_at=endpoint.suspended_at,
            proxy_host=hosts.proxy(region_id),
            suspend_timeout_seconds=endpoint.suspend_timeout_seconds,
            provisioner=endpoint.provisioner,
        )
