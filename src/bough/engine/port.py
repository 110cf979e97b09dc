"""What an engine offers: branches that hold data and endpoints that serve it.

Every `ensure_…` verb may be repeated, also after a crash in its middle. The words are branches,
volumes and endpoints, never directories and pids, so an engine may be this machine or a cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bough.engine.spec import BranchSpec, ComputeSpec
from bough.errors import Kind, PlatformError
from bough.ids import EndpointId, ProjectId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What this engine can do; cheap to ask again."""

    installs: Mapping[int, str]  # Postgres major version → the install a new project gets
    isolation: bool  # every project runs under a user of its own
    limits: str  # what keeps a compute within its size: a sentence
    driver: str  # how volumes are cloned
    refuses_new: str | None = None  # why nothing new is made now, in a sentence


class Readiness(StrEnum):
    READY = "ready"  # accepts connections; roles and databases are as the spec says
    STARTING = "starting"  # launched, still recovering; ask again


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a compute listens, in libpq's terms: a host that begins with `/` is a socket folder."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    logical_bytes: int  # the tenant's databases
    memory_bytes: int  # of all processes of the compute; what they share is counted once
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A role that may log in, as Postgres has it now."""

    name: str
    verifier: str | None  # None: it has no password
    valid_until: datetime | None  # when its password ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    running: frozenset[EndpointId]  # computes that live now
    spare: frozenset[EndpointId]  # computes that live and wait for a project
    volumes: frozenset[VolumeId]  # volumes that exist whole
    free_bytes: int  # where volumes are kept
    total_bytes: int


class EngineError(PlatformError):
    """The machine refused; the sentence may be shown, `transient` says whether to try again."""

    kind = Kind.UNAVAILABLE

    def __init__(self, public: str, *, transient: bool = True) -> None:
        super().__init__(public)
        self.transient = transient


class Engine(Protocol):
    def capabilities(self) -> Capabilities: ...

    async def ensure_branch(self, spec: BranchSpec) -> None:
        """The volume exists, whole and synced; when it is new, it holds all that its parent has committed.

        The parent goes on serving meanwhile.
        """

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        """A compute serves the volume with exactly these settings, restarted when it must be."""

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        """No compute runs for the endpoint; what was committed is on disk."""

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        """The volume is gone, and with the project's last volume all that was the project's."""

    async def address(self, endpoint: EndpointId) -> Address | None:
        """Where the endpoint's compute listens, or None when it does not accept connections."""

    async def usage(self, endpoint: EndpointId) -> Usage | None:
        """What a running endpoint's databases hold; None when it does not run."""

    async def logins(self, endpoint: EndpointId) -> tuple[Login, ...] | None:
        """Every role but ours that may log in; None when the endpoint does not run."""

    async def is_busy(self, endpoint: EndpointId) -> bool:
        """Whether a client's statement, transaction or replication connection is under way.

        A client that only holds a connection does not count, nor does what Postgres does by itself.
        """

    async def observe(self) -> Observation:
        """What is there, without waking anything."""
