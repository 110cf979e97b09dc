"""Enqueues a change to a branch's roles or databases: rows first, then Postgres, in one operation.

If the branch's compute runs, the change is made there. If it is suspended or the branch has no endpoint, a temporary
compute makes the change, without waking the endpoint for clients. An archived branch is unarchived first.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough.access import lookup
from bough.control.context import Context
from bough.control.gateway.allowances import check_writable
from bough.domain.branch import Branch
from bough.domain.catalog_change import RequestedChange
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.ids import BranchId
from bough.operations.action import NewOperation
from bough.operations.actions.change_catalog import ChangeCatalog, ChangeCatalogParams, PreviousDatabase
from bough.operations.archival import plan_unarchive
from bough.store.store import Rows


@asynccontextmanager
async def locked_branch(context: Context, project: Project, branch_id: BranchId) -> AsyncIterator[tuple[Rows, Branch]]:
    """Open a transaction that holds the branch's lock."""
    async with context.locked_transaction(
        LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=branch_id)
    ) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        check_writable(branch, project, await context.load_project_plan(rows, project))
        yield rows, branch


async def enqueue_change(
    context: Context, rows: Rows, branch: Branch, change: RequestedChange, previous: PreviousDatabase | None = None
) -> list[Operation]:
    endpoint = await rows.endpoints.get_read_write(branch.id)
    params = ChangeCatalogParams(change=change, previous=previous)
    operation = NewOperation(ChangeCatalog, branch.project_id, branch.id, endpoint.id if endpoint else None, params)
    return await context.enqueue(rows, *await plan_unarchive(rows, branch), operation)
