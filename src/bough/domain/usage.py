"""What an endpoint used since it was made: bytes, connections, time. Only ever grows."""

from dataclasses import dataclass
from datetime import datetime

from bough.ids import EndpointId, ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointUsage:
    endpoint_id: EndpointId
    project_id: ProjectId
    bytes_in: int = 0  # from clients
    bytes_out: int = 0  # to clients
    connections_opened: int = 0
    active_seconds: float = 0.0  # that its compute ran
    compute_seconds: float = 0.0  # the same, times its size in CU
    counted_at: datetime | None = None  # until when its time is counted; None: it does not run
    cpu_seconds: float = 0.0  # that its processes took
    cpu_run: datetime | None = None  # the start of the compute whose processes were measured last
    cpu_run_seconds: float = 0.0  # and what they had taken by then


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTraffic:
    """What one endpoint's clients did since the report before."""

    endpoint_id: EndpointId
    bytes_in: int
    bytes_out: int
    connections_opened: int
