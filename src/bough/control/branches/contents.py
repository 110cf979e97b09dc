"""How a change to a branch's roles or databases becomes work: rows first, then Postgres, in one operation.

A branch whose compute runs is changed through it. One that sleeps, or has no endpoint, is opened for the moment that
the change takes, and is not woken for clients. One that is archived is brought back first.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bough.access import lookup
from bough.control.context import Context
from bough.control.gateway.allowances import check_writable
from bough.domain.branch import Branch
from bough.domain.catalog_change import RequestedChange, encode_change
from bough.domain.operation import CHANGE_KEY, LockLevel, LockScope, Operation, OperationAction
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.ids import BranchId
from bough.operations.action import NewOperation
from bough.operations.archival import plan_unarchive
from bough.store.store import Rows


@asynccontextmanager
async def locked_branch(context: Context, project: Project, branch_id: BranchId) -> AsyncIterator[tuple[Rows, Branch]]:
    """A transaction in which nobody else changes the branch."""
    async with context.locked_transaction(
        LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=branch_id)
    ) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        check_writable(branch, await context.project_plan(rows, project))
        yield rows, branch


async def enqueue_change(
    context: Context, rows: Rows, branch: Branch, change: RequestedChange, before: Mapping[str, Any] | None = None
) -> list[Operation]:
    endpoint = await rows.endpoints.get_read_write(branch.id)
    parameters = {CHANGE_KEY: encode_change(change), **(before or {})}
    wish = NewOperation(
        OperationAction.APPLY_CONFIG, branch.project_id, branch.id, endpoint.id if endpoint else None, parameters
    )
    return await context.enqueue(rows, *await plan_unarchive(rows, branch), wish)
