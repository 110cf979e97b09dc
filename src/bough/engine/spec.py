"""From rows to the whole wish: what a branch is made of and how its compute shall run. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bough.domain.allowance import Fullness
from bough.domain.branch import Branch
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, EndpointType, max_connections
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.domain.project import Project
from bough.domain.role import Role
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres import replication, tenant_settings

_LOGICAL = "logical"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSpec:
    project_id: ProjectId
    volume_id: VolumeId
    install: str
    parent: VolumeId | None = None  # whose data it begins with; None: an empty Postgres
    point: Point = HEAD  # of the parent's life; its volume may be gone by now, if its history is kept
    settings: Mapping[str, str] | None = None  # of the compute that will serve it at once; None: nobody waits
    is_replica: bool = False  # it will follow its parent, and can be made again at any time
    is_snapshot: bool = False  # no server will open it, and nothing of its parent's is needed once it is made


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    name: str
    verifier: str | None  # its password from now on; None: Postgres knows it, and is not told


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSpec:
    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimarySpec:
    """Whom a read replica follows."""

    volume_id: VolumeId  # its branch's
    endpoint_id: EndpointId | None  # who writes the branch; None: nobody does, and the replica stands still


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSpec:
    project_id: ProjectId
    branch_id: BranchId
    endpoint_id: EndpointId
    volume_id: VolumeId
    install: str
    max_cu: float  # its share of the machine, at most
    min_cu: float | None = None  # from which on it is resized; None: it is not
    settings: Mapping[str, str]
    roles: tuple[RoleSpec, ...]
    databases: tuple[DatabaseSpec, ...]  # those that Postgres is to be told of
    storage_limit_bytes: int | None = None  # what its plan lets the branch store; None: nothing follows from a plan
    is_read_only: bool = False  # nothing can be written in it, whatever its clients set
    primary: PrimarySpec | None = None  # of a read replica, whose volume is made when it is missing or of no use
    replica_volumes: tuple[VolumeId, ...] = ()  # the volumes of those that follow it

    @property
    def target_verifiers(self) -> dict[str, str]:
        """Name → verifier of those that Postgres is told of."""
        return {role.name: role.verifier for role in self.roles if role.verifier is not None}

    @property
    def has_logical_replication(self) -> bool:
        return self.settings.get("wal_level") == _LOGICAL

    @property
    def effective_min_cu(self) -> float:
        """The size it starts with."""
        return self.max_cu if self.min_cu is None else self.min_cu


def build_branch_spec(
    project: Project, branch: Branch, endpoint: Endpoint | None = None, target: RecoveryTarget | None = None
) -> BranchSpec:
    """`endpoint` is the one whose compute starts as soon as the branch is made; `target` what it begins with."""
    settings = endpoint and _settings(project, endpoint)
    return BranchSpec(
        project_id=project.id,
        volume_id=branch.volume_id,
        install=project.install,
        parent=target.volume_id if target else None,
        point=target.point if target else HEAD,
        settings=settings or None,
    )


def build_compute_spec(
    project: Project,
    branch: Branch,
    endpoint: Endpoint,
    roles: Iterable[Role],
    databases: Iterable[Database],
    *,
    branch_endpoints: Iterable[Endpoint] = (),
) -> ComputeSpec:
    """`siblings` are the endpoints of the branch."""
    beside = [each for each in branch_endpoints if each.id != endpoint.id]
    spec = ComputeSpec(
        project_id=project.id,
        branch_id=branch.id,
        endpoint_id=endpoint.id,
        volume_id=branch.volume_id,
        install=project.install,
        max_cu=endpoint.max_cu,
        min_cu=endpoint.min_cu,
        settings={**_settings(project, endpoint), **_read_only(branch)},
        is_read_only=branch.fullness is Fullness.OVERFULL,
        roles=tuple(RoleSpec(name=role.name, verifier=role.verifier if role.is_pending else None) for role in roles),
        databases=tuple(DatabaseSpec(name=each.name, owner=each.owner_name) for each in databases if each.is_pending),
    )
    if endpoint.volume_id is None:
        return replace(spec, replica_volumes=tuple(each.volume_id for each in beside if each.volume_id is not None))
    writer = next((each for each in beside if each.type is EndpointType.READ_WRITE), None)
    if writer is None:
        return _build_replica_spec(spec, endpoint.volume_id, None, {})
    return _build_replica_spec(spec, endpoint.volume_id, writer.id, _settings(project, writer))


def _build_replica_spec(
    spec: ComputeSpec, volume_id: VolumeId, writer: EndpointId | None, least: Mapping[str, str]
) -> ComputeSpec:
    """It is told of nothing: what is in the branch comes with the WAL. Its limits are not below those it follows."""
    return replace(
        spec,
        volume_id=volume_id,
        settings=replication.raise_to_minimums(spec.settings, least),
        roles=tuple(replace(role, verifier=None) for role in spec.roles),
        databases=(),
        is_read_only=False,
        primary=PrimarySpec(volume_id=spec.volume_id, endpoint_id=writer),
    )


def _read_only(branch: Branch) -> dict[str, str]:
    """Of a branch that is full. Who deletes something asks for a transaction that may write."""
    return {} if branch.fullness is Fullness.BELOW_LIMIT else {"default_transaction_read_only": "on"}


def _settings(project: Project, endpoint: Endpoint) -> dict[str, str]:
    given = tenant_settings.filter_accepted(endpoint.settings.get(tenant_settings.SETTINGS_KEY), project.pg_version)
    return build_compute_settings(endpoint.max_cu, logical_replication=project.has_logical_replication, requested=given)


def build_compute_settings(
    max_cu: float, *, logical_replication: bool, requested: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Settings that depend on rows and stay while a compute runs, whatever its size: `cu` is the largest.

    What a tenant has `given` is under them, and over those of `size_settings` and of `postgres/conf.py`, which
    every compute has. Buffers are small: the page cache of the machine does the rest.
    """
    return {
        **(requested or {}),
        "shared_buffers": f"{max(16, int(max_cu * 64))}MB",
        "max_connections": str(max_connections(max_cu)),
        "wal_level": _LOGICAL if logical_replication else "replica",
    }


def build_size_settings(cu: float) -> dict[str, str]:
    """Settings that follow the size of the moment, by a reload. One CU stands for 4 GiB of memory."""
    return {
        "effective_cache_size": f"{max(256, int(cu * 3072))}MB",
        "work_mem": f"{max(4, int(cu * 4))}MB",
        "maintenance_work_mem": f"{max(32, int(cu * 64))}MB",
    }
