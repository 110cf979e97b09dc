"""The port to read the state of an engine and to measure its computes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bough.engine.port.contents import DEFAULT_CONTENTS_QUERY, BranchContents, ContentsQuery
from bough.ids import EndpointId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What this engine can do. Cheap to read repeatedly."""

    installs: Mapping[int, str]  # Postgres major version → what a new project is pinned to, such as debian-17
    has_isolation: bool  # every project runs under its own user
    limits_summary: str  # how the resources of computes are limited, in one sentence
    storage_driver: str  # how volumes are cloned
    build_warnings: tuple[str, ...] = ()  # what Postgres builds for new projects lack, in one sentence each
    # What other builds with known vulnerabilities lack, and what to do, by pin.
    vulnerable_builds: Mapping[str, str] = field(default_factory=dict)
    creation_blocked_reason: str | None = None  # why nothing can be created now, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    running_endpoints: frozenset[EndpointId]  # endpoints with a live compute
    spare_endpoints: frozenset[EndpointId]  # live computes of the warm pool
    volumes: frozenset[VolumeId]  # complete volumes
    free_bytes: int  # where volumes are stored
    total_bytes: int
    cu_by_endpoint: Mapping[EndpointId, float] = field(default_factory=dict)  # sizes of computes, where known


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeUsage:
    logical_bytes: int  # size of the tenant's databases
    memory_bytes: int  # of all processes of the compute; shared memory counts once
    cpu_seconds: float  # of all processes since the start, including ended ones
    wal_position: int | None  # end of its WAL in bytes; None: it writes none, as a read replica
    started_at: datetime  # constant during one run, even if the machine's clock changes
    replica_lag_bytes: int | None = None  # WAL that a read replica has not replayed; None: no replica, or unknown
    replica_lag_seconds: float | None = None  # age of the last replayed commit; 0 when everything is replayed
    cu: float | None = None  # current size; None: the maximum size


class ReplicaState(StrEnum):
    """The state of a running read replica in relation to its primary."""

    FOLLOWING = "follows"  # it streams WAL, or has all of it
    WAITING = "waits"  # it does not stream now, but the primary retains the WAL it lacks
    BEHIND = "behind"  # replay is paused, or its primary does not run and has more WAL; a restart helps
    LOST = "lost"  # the WAL it lacks no longer exists: it needs a new copy of the volume


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    used_bytes: int  # everything that the tenant can fill
    temp_file_limit_bytes: int | None  # temporary files per process; None: used_bytes is estimated from the files
    is_busy: bool = True  # something that may write is running


class EngineInspection(Protocol):
    """Read the state of the engine. Nothing here changes or starts anything."""

    def capabilities(self) -> Capabilities: ...

    async def observe(self) -> Observation: ...

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        """Return the current end of the volume's WAL as an LSN, or None when it is unknown, as after a crash.

        Fast enough to be called in an API request.
        """

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        """Return the usage of a running compute, or None when it does not run."""

    async def read_cpu_seconds(self) -> Mapping[EndpointId, float]:
        """Return the CPU time of every running compute since its start, without connecting to any."""

    async def measure_storage(self, endpoint: EndpointId) -> StorageUsage | None:
        """Return what the tenant stores beyond an empty Postgres, or None when the compute does not run."""

    async def read_compute_contents(
        self, endpoint: EndpointId, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents | None:
        """List the current roles and databases, or return None when the endpoint does not run."""

    async def read_replica_state(self, endpoint: EndpointId) -> ReplicaState | None:
        """Return the state of a read replica, or None when the endpoint does not run or is not a read replica."""
