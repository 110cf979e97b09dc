"""How a change to a branch's roles or databases becomes work: rows first, then Postgres, in one operation.

A branch whose compute runs is changed through it. One that sleeps, or has no endpoint, is opened for the moment that
the change takes, and is not woken for clients. One that is archived is brought back first.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bough.access import lookup
from bough.config import Plan
from bough.control.allowances import check_takes_changes
from bough.control.archiving import ensure_unarchived
from bough.control.desk import Desk
from bough.domain.branch import Branch
from bough.domain.change import Asked, written
from bough.domain.operation import CHANGE, Operation, OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.ids import BranchId
from bough.operations.action import Wish
from bough.store.store import Rows


class Changing:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @asynccontextmanager
    async def turn(self, held: Project, branch_id: BranchId) -> AsyncIterator[tuple[Rows, Branch]]:
        """A transaction in which nobody else changes the branch."""
        async with self._desk.turn(Touch(reach=Reach.BRANCH, project_id=held.id, branch_id=branch_id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await lookup.branch(rows, project, branch_id)
            check_takes_changes(branch, await self.plan_for(rows, project))
            yield rows, branch

    async def enqueue(
        self, rows: Rows, branch: Branch, change: Asked, before: Mapping[str, Any] | None = None
    ) -> list[Operation]:
        endpoint = await rows.endpoints.read_write(branch.id)
        parameters = {CHANGE: written(change), **(before or {})}
        wish = Wish(
            OperationAction.APPLY_CONFIG, branch.project_id, branch.id, endpoint.id if endpoint else None, parameters
        )
        return await self._desk.enqueue(rows, *await ensure_unarchived(rows, branch), wish)

    async def plan_for(self, rows: Rows, project: Project) -> Plan:
        return await self._desk.plan_for(rows, project)
