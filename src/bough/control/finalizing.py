"""Finalizing a restore: a branch that was made of a snapshot takes the place of another, which stays beside it."""

from dataclasses import replace
from datetime import datetime

from bough import clock
from bough.access import lookup
from bough.control import inheriting
from bough.control.archiving import ensure_unarchived
from bough.control.branch_planning import check_name
from bough.control.desk import Desk
from bough.control.inheriting import Inheritance
from bough.domain.branch import Branch
from bough.domain.endpoint import EndpointState, EndpointType
from bough.domain.operation import ALSO, RESUMES, VARIANT, Operation, OperationAction, Variant
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import Busy, RuleBroken
from bough.ids import BranchId, ProjectId
from bough.operations.action import Wish
from bough.operations.actions.finalize_restore import OLD_NAME
from bough.store.store import Rows


class Finalizing:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def finalize(self, held: Project, branch_id: BranchId, name: str | None) -> list[Operation]:
        """It gets the other's endpoints and name; that one has the given name from then on, or `… (old)`."""
        async with self._desk.store.read() as rows:
            old = await _replaceable(rows, await lookup.branch(rows, held, branch_id))
        async with self._desk.turn(finalizing(held.id, branch_id, old.id, name).touch) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await lookup.branch(rows, project, branch_id)
            check_is_same(old, await _replaceable(rows, branch))
            if name is not None:
                await check_name(rows, project, name)
            await self._share_passwords(rows, project, old, branch)
            first = await ensure_unarchived(rows, branch)
            self._desk.record.about(replaces=old.id)
            return await self._desk.enqueue(rows, *first, *await takeover(rows, branch, old, name))

    async def _share_passwords(self, rows: Rows, project: Project, old: Branch, branch: Branch) -> None:
        """Those that were changed since the restore; Postgres is told by the compute that starts next."""
        vault = self._desk.vault if project.store_passwords else None
        own = {role.name: role for role in await rows.roles.of_branch(branch.id)}
        for role in await rows.roles.of_branch(old.id):
            known = own.get(role.name)
            if known is None or role.verifier is None or role.verifier == known.verifier:
                continue
            copy = inheriting.copied(role, branch, vault, Inheritance(roles=[], databases=[]))
            await rows.roles.save(replace(copy, created_at=known.created_at, updated_at=clock.now(), is_wished=True))


def finalizing(project_id: ProjectId, branch_id: BranchId, old_id: BranchId, name: str | None = None) -> Wish:
    own = {VARIANT: Variant.FINALIZE, ALSO: old_id, **({} if name is None else {OLD_NAME: name})}
    return Wish(OperationAction.CREATE_TIMELINE, project_id, branch_id, parameters=own)


async def takeover(rows: Rows, branch: Branch, old: Branch, name: str | None = None) -> list[Wish]:
    """Computes that run are started again behind it, the one that writes first."""
    served = await rows.endpoints.of_branch(old.id)
    running = [each for each in served if EndpointState.ACTIVE in (each.state, each.pending_state)]
    running.sort(key=lambda each: each.type is not EndpointType.READ_WRITE)
    starts = [
        Wish(OperationAction.START_COMPUTE, branch.project_id, branch.id, each.id, {RESUMES: True}) for each in running
    ]
    return [finalizing(branch.project_id, branch.id, old.id, name), *starts]


async def standing(
    rows: Rows, project_id: ProjectId, branch_id: BranchId, since: datetime | None = None
) -> Branch | None:
    """Who stands in the place of a branch now: itself, or the last that replaced it (after a moment) and is there."""
    found: Branch | None = None
    branch = await rows.branches.get(project_id, branch_id)
    while branch is not None:
        if branch.deleted_at is None:
            found = branch
        branch = await rows.branches.get(project_id, branch.replaced_by) if branch.replaced_by else None
        if branch is not None and since is not None and (branch.finalized_at is None or branch.finalized_at < since):
            break
    return found


def check_is_same(before: Branch | None, now: Branch | None) -> None:
    """Between a look and the transaction that decides."""
    if (before and before.id) != (now and now.id):
        raise Busy("Another restore took that place just now. Nothing was changed; try again.")


async def _replaceable(rows: Rows, branch: Branch) -> Branch:
    """Whose place the branch takes."""
    if branch.restored_from is None:
        raise RuleBroken(
            f"The branch {branch.name!r} was not restored from a snapshot, so there is nothing to finalize."
        )
    if branch.finalized_at is not None:
        raise RuleBroken(f"The restore of the branch {branch.name!r} was finalized already.")
    target = branch.restored_for
    found = await standing(rows, branch.project_id, target, since=branch.created_at) if target else None
    if found is None:
        raise RuleBroken(
            f"The branch whose place {branch.name!r} would take is gone. Rename it, or make it the default, instead."
        )
    return found
