"""The port to create, change and delete branches."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bough.domain import lsn
from bough.domain.catalog_change import CatalogChange
from bough.engine.port.contents import DEFAULT_CONTENTS_QUERY, BranchContents, ContentsQuery
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId


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
