"""From rows to the whole wish: what a branch is made of and how its compute shall run. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bough.domain.branch import Branch
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, max_connections
from bough.domain.project import Project
from bough.domain.role import Role
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSpec:
    project_id: ProjectId
    volume_id: VolumeId
    install: str
    parent: VolumeId | None = None  # whose data it begins with; None: an empty Postgres
    settings: Mapping[str, str] | None = None  # of the compute that will serve it at once; None: nobody waits


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    name: str
    verifier: str | None  # its password from now on; None: Postgres knows it, and is not told


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSpec:
    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSpec:
    project_id: ProjectId
    branch_id: BranchId
    endpoint_id: EndpointId
    volume_id: VolumeId
    install: str
    cu: float  # its share of the machine, at most
    settings: Mapping[str, str]
    roles: tuple[RoleSpec, ...]
    databases: tuple[DatabaseSpec, ...]

    @property
    def wished_roles(self) -> dict[str, str]:
        """Name → verifier of those that Postgres is told of."""
        return {role.name: role.verifier for role in self.roles if role.verifier is not None}


def branch_spec(project: Project, branch: Branch, endpoint: Endpoint | None) -> BranchSpec:
    """`endpoint` is the one whose compute starts as soon as the branch is made."""
    settings = endpoint and compute_settings(endpoint.max_cu, logical_replication=project.logical_replication)
    return BranchSpec(
        project_id=project.id, volume_id=branch.volume_id, install=project.install, settings=settings or None
    )


def compute_spec(
    project: Project, branch: Branch, endpoint: Endpoint, roles: Iterable[Role], databases: Iterable[Database]
) -> ComputeSpec:
    return ComputeSpec(
        project_id=project.id,
        branch_id=branch.id,
        endpoint_id=endpoint.id,
        volume_id=branch.volume_id,
        install=project.install,
        cu=endpoint.max_cu,
        settings=compute_settings(endpoint.max_cu, logical_replication=project.logical_replication),
        roles=tuple(RoleSpec(name=role.name, verifier=role.verifier if role.is_wished else None) for role in roles),
        databases=tuple(DatabaseSpec(name=each.name, owner=each.owner_name) for each in databases),
    )


def compute_settings(cu: float, *, logical_replication: bool) -> dict[str, str]:
    """Settings that depend on rows. What every compute has is in `postgres/conf.py`.

    One CU stands for 4 GiB of memory; a compute that sleeps most of the time starts small, and
    the page cache of the machine does the rest.
    """
    return {
        "shared_buffers": f"{max(16, int(cu * 64))}MB",
        "effective_cache_size": f"{max(256, int(cu * 3072))}MB",
        "work_mem": "4MB",
        "maintenance_work_mem": f"{max(32, int(cu * 64))}MB",
        "max_connections": str(max_connections(cu)),
        "wal_level": "logical" if logical_replication else "replica",
    }
