"""The first things of a new project, as rows: root branch, role, database, endpoint."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bough import clock
from bough.access.vault import Vault
from bough.control import defaults
from bough.domain import branch as branches
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.branch import Branch, BranchState, Lineage, LineageStretch, Volume
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.project import Project
from bough.domain.role import Role
from bough.ids import BranchId, EndpointId, LineageId, VolumeId
from bough.postgres.secret import scram_verifier
from bough.store.store import Rows

# A thread of its own: a transaction waits for it, and shall not wait behind an engine that is busy with its disk.
_HASHING = ThreadPoolExecutor(1, "hashing")


async def root_branch(rows: Rows, project: Project, name: str | None, annotations: Mapping[str, str]) -> Branch:
    now = clock.now()
    volume = Volume(id=VolumeId.new(), project_id=project.id, created_at=now)
    lineage = Lineage(id=LineageId.new(), project_id=project.id, volume_id=volume.id, created_at=now)
    branch = Branch(
        id=BranchId.new(),
        project_id=project.id,
        parent_id=None,
        parent_lsn=None,
        parent_timestamp=None,
        name=name or branches.DEFAULT_NAME,
        state=BranchState.INIT,
        state_changed_at=now,
        volume_id=volume.id,
        is_default=True,
        is_protected=False,
        creation_source=defaults.CREATION_SOURCE,
        init_source=defaults.INIT_SOURCE,
        annotations=dict(annotations),
        logical_size=None,
        created_by=project.created_by,
        created_at=now,
        updated_at=now,
    )
    await rows.branches.add_volume(volume)
    await rows.branches.add(branch)
    stretch = LineageStretch(branch_id=branch.id, position=0, lineage_id=lineage.id, from_lsn=None, until_lsn=None)
    await rows.branches.add_lineage(lineage, stretch)
    return branch


@dataclass(frozen=True, slots=True)
class Secret:
    """A password, and how Postgres knows it."""

    password: str
    verifier: str


def new_secret() -> asyncio.Future[Secret]:
    """Made while the rest is written: the hashing takes milliseconds."""
    return asyncio.get_running_loop().run_in_executor(_HASHING, _make_secret)


def _make_secret() -> Secret:
    password = roles.new_password()
    return Secret(password, scram_verifier(password))


async def first_role(rows: Rows, branch: Branch, name: str | None, secret: Secret, vault: Vault | None) -> Role:
    """Its password is sealed into the row; there is no vault when the project stores no passwords."""
    name = roles.check_name(roles.DEFAULT_NAME if name is None else name)
    role = Role(
        branch_id=branch.id,
        name=name,
        verifier=secret.verifier,
        sealed_password=vault.seal(secret.password, password_purpose(branch.id, name)) if vault else None,
        is_protected=False,
        created_at=branch.created_at,
        updated_at=branch.created_at,
        is_wished=True,
    )
    await rows.roles.add(role)
    return role


def password_purpose(branch_id: BranchId, role_name: str) -> str:
    return f"password of {role_name} on {branch_id}"


async def first_database(rows: Rows, branch: Branch, name: str | None, owner: Role) -> Database:
    return await rows.databases.add(
        {
            "branch_id": branch.id,
            "name": databases.check_name(databases.DEFAULT_NAME if name is None else name),
            "owner_name": owner.name,
            "created_at": branch.created_at,
            "updated_at": branch.created_at,
        }
    )


async def endpoint(rows: Rows, project: Project, branch: Branch) -> Endpoint:
    settings = project.default_endpoint_settings
    made = Endpoint(
        id=EndpointId.new(),
        project_id=project.id,
        branch_id=branch.id,
        type=EndpointType.READ_WRITE,
        state=EndpointState.INIT,
        pending_state=EndpointState.ACTIVE,
        min_cu=settings["autoscaling_limit_min_cu"],
        max_cu=settings["autoscaling_limit_max_cu"],
        settings={name: settings[name] for name in ("pg_settings", "pgbouncer_settings") if name in settings},
        pooler_enabled=False,
        disabled=False,
        passwordless_access=True,
        suspend_timeout_seconds=settings["suspend_timeout_seconds"],
        provisioner=project.provisioner,
        creation_source=defaults.CREATION_SOURCE,
        created_at=branch.created_at,
        updated_at=branch.created_at,
    )
    await rows.endpoints.add(made)
    return made
