"""The port to sample running computes often: cheap for idle computes, and bounded for all of them together."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bough.ids import EndpointId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """What the operating system knows about the processes of a compute."""

    run: str  # differs after each start of the compute
    cpu_seconds: float  # of all processes since the start, including ended ones
    memory_bytes: int  # that the kernel cannot reclaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStatistics:
    """What Postgres has counted in the databases of the tenant."""

    volume_id: VolumeId
    reset_at: datetime | None  # when the counts began at zero; None: unknown
    counts: Mapping[str, int]  # see domain.metrics.fields.POSTGRES_COUNTERS
    wal_position: int | None  # end of its WAL in bytes; None: it writes none, as a read replica
    replayed_position: int | None = None  # of a read replica
    replay_age_seconds: float | None = None  # of a read replica, since the last replayed commit


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSample:
    cpu_seconds: float  # of all processes since the machine was started
    cpu_cores: int
    load_average: float  # of the last minute
    memory_used_bytes: int
    memory_total_bytes: int
    disk_used_bytes: int  # where volumes are stored
    disk_total_bytes: int


class SamplingEngine(Protocol):
    """Sample the machine and its running computes. Nothing here starts a compute or keeps one from being suspended."""

    async def sample_machine(self) -> MachineSample: ...

    async def sample_processes(self) -> Mapping[EndpointId, ProcessSample]:
        """Sample every running compute, without connecting to any."""

    async def read_statistics(self, endpoint: EndpointId) -> ComputeStatistics | None:
        """Read the statistics of a compute, or return None when it does not accept connections.

        The session stays open for the next call, unless too many are open.
        """

    async def retain_sessions(self, endpoints: Collection[EndpointId]) -> None:
        """Close the sessions that `read_statistics` left open, except those in these computes."""
