"""Builds and adds the initial rows of a branch: the branch, its volume, roles and databases, and credentials."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bough.access.vault import Vault
from bough.control import defaults
from bough.domain import branch as branches
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.branch import Branch, BranchLineage, BranchState, Lineage, Volume
from bough.domain.database import Database
from bough.domain.project import Project
from bough.domain.role import Role
from bough.ids import BranchId, LineageId, ProjectId, VolumeId
from bough.postgres.scram import scram_verifier
from bough.store.store import Rows

# A separate thread, so that a transaction that waits for it does not queue behind the engine's disk I/O.
_HASHING = ThreadPoolExecutor(1, "hashing")


def new_branch(project: Project, name: str | None, now: datetime, **fields: Any) -> Branch:
    """Return a new branch, named by its id if it has no name."""
    branch_id = BranchId.new()
    default_fields: dict[str, Any] = {
        "parent_id": None,
        "parent_lsn": None,
        "parent_timestamp": None,
        "is_default": False,
        "is_protected": False,
        "init_source": branches.PARENT_DATA,
        "created_by": project.created_by,
    }
    return Branch(
        id=branch_id,
        project_id=project.id,
        name=name or branch_id,
        state=BranchState.INIT,
        state_changed_at=now,
        volume_id=VolumeId.new(),
        creation_source=defaults.CREATION_SOURCE,
        logical_size=None,
        created_at=now,
        updated_at=now,
        **{**default_fields, **fields},
    )


async def add_branch_rows(rows: Rows, branch: Branch) -> None:
    """Add the rows of a new branch, its volume and its lineage."""
    now = branch.created_at
    await rows.lineages.add_volume(Volume(id=branch.volume_id, project_id=branch.project_id, created_at=now))
    await rows.branches.add(branch)
    lineage = await add_lineage(rows, branch.project_id, branch.volume_id, now)
    await rows.lineages.add_branch_lineage(BranchLineage(branch_id=branch.id, position=0, lineage_id=lineage.id))


async def add_lineage(rows: Rows, project_id: ProjectId, volume_id: VolumeId, now: datetime) -> Lineage:
    lineage = Lineage(id=LineageId.new(), project_id=project_id, volume_id=volume_id, created_at=now)
    await rows.lineages.add(lineage)
    return lineage


@dataclass(frozen=True, slots=True)
class RoleCredentials:
    """A password and the SCRAM verifier that Postgres stores for it."""

    password: str
    verifier: str


def generate_credentials() -> asyncio.Future[RoleCredentials]:
    """Start generating credentials in a thread, so that the caller can work meanwhile; hashing takes milliseconds."""
    return asyncio.get_running_loop().run_in_executor(_HASHING, _generate_credentials)


def _generate_credentials() -> RoleCredentials:
    password = roles.new_password()
    return RoleCredentials(password, scram_verifier(password))


async def add_first_role(
    rows: Rows, branch: Branch, name: str | None, credentials: RoleCredentials, vault: Vault | None
) -> Role:
    name = roles.check_name(roles.DEFAULT_NAME if name is None else name)
    role = new_role(branch.id, name, credentials, vault, branch.created_at)
    await rows.roles.add(role)
    return role


def new_role(
    branch_id: BranchId, name: str, credentials: RoleCredentials | None, vault: Vault | None, now: datetime
) -> Role:
    """Return a role that Postgres does not have yet, with its password sealed if there is a vault.

    The vault is None if the project does not store passwords. Without credentials the role may not log in.
    """
    sealed = (
        vault.seal(credentials.password, roles.password_sealing_purpose(branch_id, name))
        if vault and credentials
        else None
    )
    return Role(
        branch_id=branch_id,
        name=name,
        verifier=credentials.verifier if credentials else None,
        sealed_password=sealed,
        is_protected=False,
        created_at=now,
        updated_at=now,
        is_pending=True,
        can_login=credentials is not None,
    )


async def add_first_database(rows: Rows, branch: Branch, name: str | None, owner: Role) -> Database:
    checked_name = databases.check_name(databases.DEFAULT_NAME if name is None else name)
    return await rows.databases.add(
        databases.new_database(branch.id, checked_name, owner.name, branch.created_at, is_pending=True)
    )
