"""What an engine offers: branches that hold data and endpoints that serve it.

Every `ensure_…` verb may be repeated, also after a crash in its middle. The words are branches,
volumes and endpoints, never directories and pids, so an engine may be this machine or a cluster.
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
    """What this engine can do; cheap to ask again."""

    installs: Mapping[int, str]  # Postgres major version → the install a new project gets
    has_isolation: bool  # every project runs under a user of its own
    limits_summary: str  # what keeps a compute within its size: a sentence
    storage_driver: str  # how volumes are cloned
    creation_blocked_reason: str | None = None  # why nothing new is made now, in a sentence


class Readiness(StrEnum):
    READY = "ready"  # accepts connections; roles and databases are as the spec says
    STARTING = "starting"  # launched, still recovering; ask again


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeUsage:
    logical_bytes: int  # the tenant's databases
    memory_bytes: int  # of all processes of the compute; what they share is counted once
    cpu_seconds: float  # that they took since it was started, those that ended too
    wal_position: int | None  # where its WAL ends, in bytes; None: it writes none, as a read replica
    started_at: datetime  # of one run always the same, whatever becomes of the machine's clock
    replica_lag_bytes: int | None = None  # WAL that a read replica has not replayed; None: no replica, or nobody knows
    replica_lag_seconds: float | None = None  # how old the last commit is that it replayed; 0 when it replayed all
    cu: float | None = None  # its size now; None: it is as large as it may be


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    used_bytes: int  # all that the tenant can fill
    temp_file_limit_bytes: int | None  # what a process may have of temporary files; None: files were counted, roughly
    is_busy: bool = True  # something is under way that may write


class ReplicaState(StrEnum):
    """How a running read replica stands to the compute that writes its branch."""

    FOLLOWING = "follows"  # it is told what is written, or there is nothing that it lacks
    WAITING = "waits"  # it is not told at the moment; what it lacks is kept for it
    BEHIND = "behind"  # it stands still, or nobody runs who could tell it what it lacks; a restart helps
    LOST = "lost"  # what it lacks is gone: it needs another copy


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """What a running compute takes of the machine, cheap to ask for."""

    cu: float | None  # its size; None: it is as large as it may be
    cpu_seconds: float  # that its processes took since it was started
    memory_bytes: int  # that it cannot give back


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRole:
    """A role as Postgres has it now."""

    name: str
    can_login: bool
    verifier: str | None  # None: it has no password
    valid_until: datetime | None  # when its password ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDatabase:
    name: str
    owner: str


MAX_LISTED = 2000  # roles of a branch that are ever told, and databases


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsQuery:
    """Of how many roles and databases one is told: first of those that are known, then of the oldest."""

    max_roles: int = MAX_LISTED
    max_databases: int = MAX_LISTED
    known_roles: tuple[str, ...] = ()
    known_databases: tuple[str, ...] = ()


DEFAULT_CONTENTS_QUERY = ContentsQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchContents:
    """What is in a branch, but for what is ours and Postgres's own."""

    roles: tuple[ObservedRole, ...]
    databases: tuple[ObservedDatabase, ...]
    unlisted_roles: int = 0  # that there are besides
    unlisted_databases: int = 0

    def is_complete_for(self, query: ContentsQuery) -> bool:
        """Whether these are all, and no more than are wanted."""
        is_all = not self.unlisted_roles and not self.unlisted_databases
        return is_all and len(self.roles) <= query.max_roles and len(self.databases) <= query.max_databases


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The moment of its parent's life that a branch begins with; of one without a parent only where its WAL begins."""

    lsn: str | None = None
    at: datetime | None = None
    has_subscriptions: bool = False  # it has subscriptions, which are the parent's

    @property
    def position(self) -> int | None:
        """The LSN as a number of bytes."""
        return None if self.lsn is None else lsn.to_int(self.lsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatus:
    """How the history of a volume stands."""

    began_at: datetime | None  # since when one can go back to it; None: not at all so far
    began_lsn: str | None
    history_bytes: int  # on disk: archived WAL, and what bases alone hold
    waiting_bytes: int  # of WAL that is to be archived and is not yet
    trouble: str | None = None  # why it falls behind, in a sentence
    is_base_due: bool = False  # one that was not to be taken now


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    running_endpoints: frozenset[EndpointId]  # computes that live now
    spare_endpoints: frozenset[EndpointId]  # computes that live and wait for a project
    volumes: frozenset[VolumeId]  # volumes that exist whole
    free_bytes: int  # where volumes are kept
    total_bytes: int
    cu_by_endpoint: Mapping[EndpointId, float] = field(default_factory=dict)  # of computes in CU, where it is known


class EngineError(PlatformError):
    """The machine refused; the sentence may be shown, `transient` says whether to try again."""

    kind = ErrorKind.UNAVAILABLE

    def __init__(self, public: str, *, transient: bool = True) -> None:
        super().__init__(public)
        self.transient = transient


class VolumeHasDependents(EngineError):
    """The volume cannot go, because the history of another needs it still; that passes."""


class Engine(Protocol):
    def capabilities(self) -> Capabilities: ...

    async def ensure_branch(self, spec: BranchSpec) -> Origin:
        """The volume exists, whole and synced; when it is new, it holds all that its parent has committed, or had
        committed at the spec's point.

        The parent goes on serving meanwhile. The origin is the same however often it is asked for.
        """

    async def read_branch_contents(
        self, spec: BranchSpec, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents:
        """Roles and databases of a branch, by the compute that serves it or by one of its own for that moment."""

    async def apply_change(self, spec: BranchSpec, change: CatalogChange) -> None:
        """The change is made in the branch, by the compute that serves it or by one of its own for that moment.

        A compute that stands refuses it.
        """

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        """A compute serves the volume with exactly these settings, restarted when it must be.

        The volume of a read replica is made when it is missing, and made again when it can no longer follow.
        """

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        """No compute runs for the endpoint; what was committed is on disk."""

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        """The volume and its history are gone, and with the project's last volume all that was the project's.

        Refused with StoodOn while another volume's history needs it.
        """

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        """Where the volume's WAL ends now, as an LSN; None: nobody knows, as of a compute that was killed.

        A look, quick enough for a request.
        """

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        """One can go back to every moment of the volume since then, or since its history began, and what only serves
        moments before is gone, unless another volume's history stands on it. Takes a base when one is due, which may
        take long, unless it is told not to.
        """

    async def ensure_history_started(self, project: ProjectId, volume: VolumeId) -> HistoryStatus:
        """The history of the volume begins with what it holds now, and not before. No compute may serve it."""

    async def retire_volume(self, project: ProjectId, volume: VolumeId) -> None:
        """The volume is gone, and its history is not: every commit in it can still be gone back to."""

    async def ensure_packed(self, project: ProjectId, volume: VolumeId) -> None:
        """The volume takes as little of the disk as the driver allows; no compute runs on it, and none can."""

    async def ensure_unpacked(self, project: ProjectId, volume: VolumeId) -> None:
        """A compute can serve the volume."""

    async def measure_volume(self, volume: VolumeId) -> int | None:
        """Bytes on disk that no other volume shares; None when it does not exist."""

    async def find_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        """Where the endpoint's compute listens, or None when it does not accept connections."""

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        """What a running endpoint's databases hold and its compute has used; None when it does not run."""

    async def read_cpu_seconds(self) -> Mapping[EndpointId, float]:
        """The processor time of every running compute since it was started: one look for all, without a session."""

    async def measure_storage(self, endpoint: EndpointId) -> StorageUsage | None:
        """What the tenant of a running endpoint stores above an empty Postgres; None when it does not run."""

    async def read_replica_state(self, endpoint: EndpointId) -> ReplicaState | None:
        """How a read replica stands; None when it does not run, or is none."""

    async def read_compute_contents(
        self, endpoint: EndpointId, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents | None:
        """Roles and databases as they are now; None when the endpoint does not run."""

    async def is_busy(self, endpoint: EndpointId) -> bool:
        """Whether a client's statement, transaction or replication connection is under way.

        A client that only holds a connection does not count, nor does what Postgres does by itself.
        """

    async def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        """What the endpoint's compute takes now; None when it does not accept connections."""

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        """A running compute has this size from now on, without a restart; nothing when none runs."""

    async def observe(self) -> Observation:
        """What is there, without waking anything."""
