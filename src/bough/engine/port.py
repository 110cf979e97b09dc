"""The engine port: branches that hold data, and computes that serve them.

It is split by user into four protocols: BranchEngine, ComputeEngine, HistoryEngine and EngineInspection. Every
`ensure_…` method is idempotent, also after a crash in the middle of a call. The port speaks of branches, volumes and
endpoints, never of folders and pids, so that an engine can be this machine or a cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bough.domain import lsn
from bough.domain.catalog_change import CatalogChange
from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.errors import ErrorKind, PlatformError
from bough.ids import EndpointId, ProjectId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What this engine can do. Cheap to read repeatedly."""

    installs: Mapping[int, str]  # Postgres major version → id of the install that a new project gets
    has_isolation: bool  # every project runs under its own user
    limits_summary: str  # how the resources of computes are limited, in one sentence
    storage_driver: str  # how volumes are cloned
    creation_blocked_reason: str | None = None  # why nothing can be created now, in one sentence


class Readiness(StrEnum):
    READY = "ready"  # accepts connections and has the roles and databases of the spec
    STARTING = "starting"  # started but still recovering: call again


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    used_bytes: int  # everything that the tenant can fill
    temp_file_limit_bytes: int | None  # temporary files per process; None: used_bytes is estimated from the files
    is_busy: bool = True  # something that may write is running


class ReplicaState(StrEnum):
    """The state of a running read replica in relation to its primary."""

    FOLLOWING = "follows"  # it streams WAL, or has all of it
    WAITING = "waits"  # it does not stream now, but the primary retains the WAL it lacks
    BEHIND = "behind"  # replay is paused, or its primary does not run and has more WAL; a restart helps
    LOST = "lost"  # the WAL it lacks no longer exists: it needs a new copy of the volume


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """The resource usage of a running compute. Cheap to read."""

    cu: float | None  # current size; None: the maximum size
    cpu_seconds: float  # of its processes since the start
    memory_bytes: int  # that the kernel cannot reclaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRole:
    """A role as it is in Postgres."""

    name: str
    can_login: bool
    verifier: str | None  # None: it has no password
    valid_until: datetime | None  # when its password expires


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDatabase:
    name: str
    owner: str


MAX_LISTED = 2000  # roles, and databases, of a branch that are listed at most


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsQuery:
    """How many roles and databases to list: known ones first, then the oldest."""

    max_roles: int = MAX_LISTED
    max_databases: int = MAX_LISTED
    known_roles: tuple[str, ...] = ()
    known_databases: tuple[str, ...] = ()


DEFAULT_CONTENTS_QUERY = ContentsQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchContents:
    """The roles and databases of a branch, without those of the platform and of Postgres itself."""

    roles: tuple[ObservedRole, ...]
    databases: tuple[ObservedDatabase, ...]
    unlisted_roles: int = 0  # how many more exist
    unlisted_databases: int = 0

    def is_complete_for(self, query: ContentsQuery) -> bool:
        """Return whether nothing is unlisted and the query's limits are met."""
        is_complete = not self.unlisted_roles and not self.unlisted_databases
        return is_complete and len(self.roles) <= query.max_roles and len(self.databases) <= query.max_databases


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The point in its parent's history at which a branch begins. Without a parent, only where its WAL begins."""

    lsn: str | None = None
    at: datetime | None = None
    has_subscriptions: bool = False  # it contains subscriptions of the parent

    @property
    def position(self) -> int | None:
        """The LSN as a number of bytes."""
        return None if self.lsn is None else lsn.to_int(self.lsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatus:
    """The state of a volume's history."""

    began_at: datetime | None  # the earliest time that can be restored; None: none yet
    began_lsn: str | None
    history_bytes: int  # on disk: archived WAL, and what only bases contain
    waiting_bytes: int  # of WAL that is not archived yet
    trouble: str | None = None  # why archiving falls behind, in one sentence
    is_base_due: bool = False  # a base is due and was not taken, because the caller did not allow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    running_endpoints: frozenset[EndpointId]  # endpoints with a live compute
    spare_endpoints: frozenset[EndpointId]  # live computes of the warm pool
    volumes: frozenset[VolumeId]  # complete volumes
    free_bytes: int  # where volumes are stored
    total_bytes: int
    cu_by_endpoint: Mapping[EndpointId, float] = field(default_factory=dict)  # sizes of computes, where known


class EngineError(PlatformError):
    """The engine failed. The message may be shown to users; `transient` says whether to try again."""

    kind = ErrorKind.UNAVAILABLE

    def __init__(self, public: str, *, transient: bool = True) -> None:
        super().__init__(public)
        self.transient = transient


class VolumeHasDependents(EngineError):
    """The volume cannot be deleted yet, because the history of another volume needs it. Transient."""


class BranchEngine(Protocol):
    """Create, change and delete branches."""

    async def ensure_branch(self, spec: BranchSpec) -> Origin:
        """Create the volume, complete and synced to disk. A new one contains everything that its parent has committed,
        or had committed at the spec's point.

        The parent keeps serving clients. Repeated calls return the same origin.
        """

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        """Delete the volume and its history, and with the last volume of a project everything else of the project.

        Raise VolumeHasDependents while the history of another volume needs it.
        """

    async def ensure_packed(self, project: ProjectId, volume: VolumeId) -> None:
        """Reduce the volume's disk usage as far as the driver can. No compute runs on it, and none can start."""

    async def ensure_unpacked(self, project: ProjectId, volume: VolumeId) -> None:
        """Make it possible to start a compute on the volume."""

    async def apply_change(self, spec: BranchSpec, change: CatalogChange) -> None:
        """Apply the change through the compute that serves the branch, or through a temporary one.

        A read-only compute rejects it.
        """

    async def read_branch_contents(
        self, spec: BranchSpec, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents:
        """List roles and databases through the compute that serves the branch, or through a temporary one."""

    async def measure_volume(self, volume: VolumeId) -> int | None:
        """Return the bytes on disk that no other volume shares, or None when the volume does not exist."""


class ComputeEngine(Protocol):
    """Start, stop and resize computes."""

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        """Run a compute on the volume with exactly these settings. Restart it if they require that.

        The volume of a read replica is created if it is missing, and created again if it can no longer follow.
        """

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        """Stop the endpoint's compute. Everything committed is on disk afterwards."""

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        """Resize a running compute without a restart. Do nothing when none runs."""

    async def find_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        """Return where the endpoint's compute listens, or None when it does not accept connections."""

    async def is_busy(self, endpoint: EndpointId) -> bool:
        """Return whether a client has an active statement, transaction or replication connection.

        Idle connections and background work of Postgres do not count.
        """

    async def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        """Return the resource usage of the endpoint's compute, or None when it does not accept connections."""

    async def read_replica_state(self, endpoint: EndpointId) -> ReplicaState | None:
        """Return the state of a read replica, or None when the endpoint does not run or is not a read replica."""


class HistoryEngine(Protocol):
    """Keep and prune the history of volumes."""

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        """Keep every point since the given time, or since the history began, and delete what only earlier points
        need, unless the history of another volume depends on it. Take a base when one is due, which may take long,
        unless `take_bases` is False.
        """

    async def ensure_history_started(self, project: ProjectId, volume: VolumeId) -> HistoryStatus:
        """Start a history that begins with the current contents of the volume. No compute may run on it."""

    async def retire_volume(self, project: ProjectId, volume: VolumeId) -> None:
        """Delete the volume and keep its history: every commit in it can still be restored."""


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


class Engine(BranchEngine, ComputeEngine, HistoryEngine, EngineInspection, Protocol):
    """The whole port. Callers declare the protocol they need instead."""
