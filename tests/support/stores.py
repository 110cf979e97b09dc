"""Opens a new store on either back end, and creates rows for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bough.control import defaults
from bough.domain.branch import Branch, BranchLineage, BranchState, Lineage, Volume
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.operation import Operation, OperationKind, OperationStatus
from bough.domain.project import Project
from bough.domain.user import OPERATOR
from bough.ids import BranchId, EndpointId, LineageId, OperationId, OrganizationId, ProjectId, VolumeId
from bough.store.postgres import PostgresStore
from bough.store.sqlite import SqliteStore
from bough.store.store import Rows, Store
from support.platform import read_migrated_store
from support.postgres import PostgresServer

ORGANIZATION = OrganizationId("org-operator")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BACKENDS = ("sqlite", "postgres")
# For tests that only use the store: the tests in `contracts/` always compare both back ends.
EVERYDAY_BACKENDS = ("sqlite", pytest.param("postgres", marks=pytest.mark.long))


@asynccontextmanager
async def open_store(back_end: str, folder: Path, server: PostgresServer) -> AsyncIterator[Store]:
    store: Store
    if back_end == "sqlite":
        (folder / "store.db").write_bytes(read_migrated_store())
        store = SqliteStore(folder / "store.db")
    else:
        store = PostgresStore(await server.create_store_database())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def make_project(minute: int = 0, **changes: Any) -> Project:
    created_at = NOON + timedelta(minutes=minute)
    fields: dict[str, Any] = {
        "id": ProjectId.new(),
        "org_id": ORGANIZATION,
        "created_by": OPERATOR,
        "name": f"project {minute}",
        "region_id": "aws-us-east-2",
        "pg_version": 17,
        "install": "embedded-17",
        "provisioner": defaults.PROVISIONER,
        "settings": {"quota": {"active_time_seconds": 2**62}, "allowed_ips": {"ips": ["10.0.0.0/8"]}},
        "default_endpoint_settings": {},
        "store_passwords": True,
        "history_retention_seconds": 86400,
        "creation_source": "api",
        "created_at": created_at,
        "updated_at": created_at,
    }
    return Project(**{**fields, **changes})


def make_branch(project: Project, **changes: Any) -> Branch:
    fields: dict[str, Any] = {
        "id": BranchId.new(),
        "project_id": project.id,
        "parent_id": None,
        "parent_lsn": None,
        "parent_timestamp": None,
        "name": "main",
        "state": BranchState.INIT,
        "state_changed_at": NOON,
        "volume_id": VolumeId.new(),
        "is_default": True,
        "is_protected": False,
        "creation_source": "api",
        "init_source": "parent-data",
        "annotations": {"ünïcode": "\u2603"},
        "logical_size": None,
        "created_by": OPERATOR,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Branch(**{**fields, **changes})


def make_endpoint(branch: Branch, **changes: Any) -> Endpoint:
    fields: dict[str, Any] = {
        "id": EndpointId.new(),
        "project_id": branch.project_id,
        "branch_id": branch.id,
        "type": EndpointType.READ_WRITE,
        "state": EndpointState.INIT,
        "pending_state": EndpointState.ACTIVE,
        "min_cu": 0.25,
        "max_cu": 2.0,
        "settings": {},
        "pooler_enabled": False,
        "disabled": False,
        "passwordless_access": True,
        "suspend_timeout_seconds": 0,
        "provisioner": "local",
        "creation_source": "api",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Endpoint(**{**fields, **changes})


async def add_project(store: Store, project: Project, **branch_changes: Any) -> tuple[Branch, Endpoint]:
    branch = make_branch(project, **branch_changes)
    endpoint = make_endpoint(branch)
    lineage = Lineage(id=LineageId.new(), project_id=project.id, volume_id=branch.volume_id, created_at=NOON)
    branch_lineage = BranchLineage(branch_id=branch.id, position=0, lineage_id=lineage.id)
    async with store.transaction() as rows:
        await rows.projects.add(project)
        await rows.lineages.add_volume(Volume(id=branch.volume_id, project_id=project.id, created_at=NOON))
        await rows.branches.add(branch)
        await rows.lineages.add(lineage)
        await rows.lineages.add_branch_lineage(branch_lineage)
        await rows.endpoints.add(endpoint)
    return branch, endpoint


async def add_branch(store: Store, branch: Branch) -> Branch:
    """Add a branch to an existing project, with its volume and its lineage."""
    async with store.transaction() as rows:
        volume = Volume(id=branch.volume_id, project_id=branch.project_id, created_at=NOON)
        await rows.lineages.add_volume(volume)
        await rows.branches.add(branch)
        await add_lineage(rows, branch, branch.volume_id)
    return branch


async def add_lineage(rows: Rows, branch: Branch, volume_id: VolumeId, **fields: Any) -> Lineage:
    """Add the lineage of a volume and append it to the history of the branch."""
    position = len(await rows.lineages.list_ranges(branch.id))
    lineage = Lineage(
        id=LineageId.new(), project_id=branch.project_id, volume_id=volume_id, created_at=branch.created_at
    )
    await rows.lineages.add(lineage)
    await rows.lineages.add_branch_lineage(
        BranchLineage(branch_id=branch.id, position=position, lineage_id=lineage.id, **fields)
    )
    return lineage


def make_operation(project_id: str, **changes: Any) -> Operation:
    """Return an operation that starts a compute and has not begun."""
    fields: dict[str, Any] = {
        "id": OperationId.new(),
        "project_id": project_id,
        "branch_id": None,
        "endpoint_id": None,
        "kind": OperationKind.START_COMPUTE,
        "status": OperationStatus.SCHEDULING,
        "parameters": {"a": [1]},
        "after": None,
        "step": "launch",
        "steps_done": ("one", "two"),
        "undoing": False,
        "failures": 0,
        "error": None,
        "due_at": NOON,
        "lease_until": None,
        "fence": 0,
        "request_id": "r",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Operation(**{**fields, **changes})
