"""Build the specs of branches and computes from rows. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from bough.domain import audit_level
from bough.domain.allowance import Fullness
from bough.domain.audit_level import AuditLevel
from bough.domain.branch import Branch
from bough.domain.database import DEFAULT_NAME, Database
from bough.domain.endpoint import Endpoint, EndpointType, max_connections
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.domain.project import Project
from bough.domain.role import Role
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres import preload_libraries, replication, scheduled_jobs, tenant_settings

_LOGICAL = "logical"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSpec:
    project_id: ProjectId
    volume_id: VolumeId
    install: str
    source_volume_id: VolumeId | None = None  # what it is cloned from; None: an empty Postgres
    point: Point = HEAD  # in the history of the source, which may be retired
    settings: Mapping[str, str] | None = None  # of the compute that starts immediately; None: no compute does
    is_replica: bool = False  # for a read replica of the source, which can be created again at any time
    is_snapshot: bool = False  # no server opens it, and once created it does not depend on its source


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    name: str
    verifier: str | None  # its password verifier; None: leave the one in Postgres unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSpec:
    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimarySpec:
    """The primary of a read replica."""

    volume_id: VolumeId  # of the branch
    endpoint_id: EndpointId | None  # the read-write endpoint; None: there is none, and the replica does not change


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSpec:
    project_id: ProjectId
    branch_id: BranchId
    endpoint_id: EndpointId
    volume_id: VolumeId
    install: str
    max_cu: float  # maximum size
    min_cu: float | None = None  # minimum size for autoscaling; None: no autoscaling
    settings: Mapping[str, str]
    roles: tuple[RoleSpec, ...]
    databases: tuple[DatabaseSpec, ...]  # those to create
    storage_limit_bytes: int | None = None  # of the plan; None: the plan sets no limit
    is_read_only: bool = False  # clients cannot write, whatever they set
    primary: PrimarySpec | None = None  # of a read replica, whose volume is created when missing or unusable
    replica_volumes: tuple[VolumeId, ...] = ()  # of its read replicas
    audit_level: AuditLevel | None = None  # the engine adds the settings, which depend on the build

    @property
    def target_verifiers(self) -> dict[str, str]:
        """Name → verifier of the roles to create or change."""
        return {role.name: role.verifier for role in self.roles if role.verifier is not None}

    @property
    def has_logical_replication(self) -> bool:
        return self.settings.get("wal_level") == _LOGICAL

    @property
    def effective_min_cu(self) -> float:
        """The size of a first start."""
        return self.max_cu if self.min_cu is None else self.min_cu


def build_branch_spec(
    project: Project, branch: Branch, endpoint: Endpoint | None = None, target: RecoveryTarget | None = None
) -> BranchSpec:
    """`endpoint` is the one whose compute starts as soon as the branch exists; `target` is what it is cloned from."""
    settings = endpoint and _build_settings(project, branch, endpoint)
    return BranchSpec(
        project_id=project.id,
        volume_id=branch.volume_id,
        install=project.install,
        source_volume_id=target.volume_id if target else None,
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
    """`roles`, `databases` and `branch_endpoints` are all those of the branch."""
    databases = list(databases)
    other_endpoints = [each for each in branch_endpoints if each.id != endpoint.id]
    spec = ComputeSpec(
        project_id=project.id,
        branch_id=branch.id,
        endpoint_id=endpoint.id,
        volume_id=branch.volume_id,
        install=project.install,
        max_cu=endpoint.max_cu,
        min_cu=endpoint.min_cu,
        settings={**_build_settings(project, branch, endpoint, databases), **_build_fullness_settings(branch)},
        is_read_only=branch.fullness is Fullness.OVERFULL,
        audit_level=audit_level.read_level(project.settings, project.pg_version),
        roles=tuple(RoleSpec(name=role.name, verifier=role.verifier if role.is_pending else None) for role in roles),
        databases=tuple(DatabaseSpec(name=each.name, owner=each.owner_name) for each in databases if each.is_pending),
    )
    if endpoint.volume_id is None:
        return replace(
            spec, replica_volumes=tuple(each.volume_id for each in other_endpoints if each.volume_id is not None)
        )
    writer = next((each for each in other_endpoints if each.type is EndpointType.READ_WRITE), None)
    if writer is None:
        return _build_replica_spec(spec, endpoint.volume_id, None, {})
    return _build_replica_spec(spec, endpoint.volume_id, writer.id, _build_settings(project, branch, writer))


def _build_replica_spec(
    spec: ComputeSpec, volume_id: VolumeId, writer: EndpointId | None, minimums: Mapping[str, str]
) -> ComputeSpec:
    """A replica gets its roles and databases through the WAL. Its limits must not be lower than its primary's."""
    libraries = _merge_libraries(spec.settings, minimums)
    return replace(
        spec,
        volume_id=volume_id,
        settings=preload_libraries.build_overridable_settings(libraries, spec.max_cu)
        | replication.raise_to_minimums(spec.settings, minimums)
        | preload_libraries.build_settings(libraries),
        roles=tuple(replace(role, verifier=None) for role in spec.roles),
        databases=(),
        is_read_only=False,
        primary=PrimarySpec(volume_id=spec.volume_id, endpoint_id=writer),
    )


def _merge_libraries(own: Mapping[str, str], primary: Mapping[str, str]) -> tuple[str, ...]:
    """A replica preloads what its primary does, too: it may replay WAL of these libraries."""
    return tuple(dict.fromkeys((*preload_libraries.parse(own), *preload_libraries.parse(primary))))


def _build_fullness_settings(branch: Branch) -> dict[str, str]:
    """A full branch is read-only by default. To delete rows, a client starts a read-write transaction."""
    return {} if branch.fullness is Fullness.BELOW_LIMIT else {"default_transaction_read_only": "on"}


def _build_settings(
    project: Project, branch: Branch, endpoint: Endpoint, databases: Collection[Database] = ()
) -> dict[str, str]:
    requested = tenant_settings.filter_accepted(endpoint.settings.get(tenant_settings.SETTINGS_KEY), project.pg_version)
    libraries = preload_libraries.select(
        project.settings.get(preload_libraries.SETTINGS_KEY),
        endpoint.settings.get(preload_libraries.SETTINGS_KEY),
        project.pg_version,
    )
    oldest = min(databases, key=lambda each: each.id, default=None)
    jobs = scheduled_jobs.build_settings(
        libraries, database=oldest.name if oldest else DEFAULT_NAME, is_copy=branch.is_copy
    )
    settings = build_compute_settings(
        endpoint.max_cu,
        logical_replication=project.has_logical_replication,
        requested=preload_libraries.build_overridable_settings(libraries, endpoint.max_cu) | jobs | requested,
    )
    return settings | preload_libraries.build_settings(libraries)


def build_default_settings(max_cu: float) -> dict[str, str]:
    """Return the settings of a compute if neither its project nor its endpoint has any."""
    libraries = preload_libraries.DEFAULTS
    settings = build_compute_settings(
        max_cu,
        logical_replication=False,
        requested=preload_libraries.build_overridable_settings(libraries, max_cu),
    )
    return settings | preload_libraries.build_settings(libraries)


def build_compute_settings(
    max_cu: float, *, logical_replication: bool, requested: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings that depend on rows and not on the current size.

    They take precedence over the settings that a tenant `requested`, which take precedence over those of
    `build_size_settings` and `postgres/postgresql_conf.py`. Shared buffers are small, because the page cache of the
    machine caches the rest.
    """
    return {
        **(requested or {}),
        "shared_buffers": f"{max(16, int(max_cu * 64))}MB",
        "max_connections": str(max_connections(max_cu)),
        "wal_level": _LOGICAL if logical_replication else "replica",
    }


def build_size_settings(cu: float) -> dict[str, str]:
    """Return the settings that depend on the current size; a reload applies them. One CU has 4 GiB of memory."""
    return {
        "effective_cache_size": f"{max(256, int(cu * 3072))}MB",
        "work_mem": f"{max(4, int(cu * 4))}MB",
        "maintenance_work_mem": f"{max(32, int(cu * 64))}MB",
    }
