"""The usage of an endpoint: bytes, connections, time. What the consumption history contains is deducted from it."""

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
    private_in: int = 0  # the part of bytes_in that came over private networks
    private_out: int = 0  # the part of bytes_out that went over private networks
    written_bytes: int = 0  # WAL
    active_seconds: float = 0.0  # while its compute ran
    compute_seconds: float = 0.0  # active_seconds times the size in CU
    counted_at: datetime | None = None  # until when the time is counted; None: the compute does not run
    cpu_seconds: float = 0.0  # CPU time of its processes
    cpu_run: datetime | None = None  # start time of the last measured compute
    cpu_run_seconds: float = 0.0  # CPU time of that compute at the last measurement
    is_uncounted: bool = False  # some of it is not in the consumption history


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTraffic:
    """The traffic of one endpoint since the previous report."""

    endpoint_id: EndpointId
    bytes_in: int
    bytes_out: int
    connections_opened: int
    private_in: int = 0  # the part of bytes_in that came from the operator's private networks
    private_out: int = 0  # likewise of bytes_out
