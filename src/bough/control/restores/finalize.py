"""Finalizing a restore: a branch that was made of a snapshot takes the place of another, which stays beside it."""

from dataclasses import replace
from datetime import datetime

from bough import clock
from bough.access import lookup
from bough.control.branches import inheritance
from bough.control.branches.inheritance import InheritedContents
from bough.control.branches.plan import check_name_is_free
from bough.control.context import Context
from bough.domain.branch import Branch
from bough.domain.endpoint import EndpointType
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import Busy, RuleViolation
from bough.ids import BranchId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.finalize_restore import FinalizeRestore, FinalizeRestoreParams
from bough.operations.actions.start_compute import StartCompute, StartComputeParams
from bough.operations.archival import plan_unarchive
from bough.store.store import Rows


async def finalize_restore(
    context: Context, project: Project, branch_id: BranchId, name: str | None
) -> list[Operation]:
    """It gets the other's endpoints and name; that one has the given name from then on, or `… (old)`."""
    async with context.services.store.read() as rows:
        old = await _find_replaced_branch(rows, await lookup.branch(rows, project, branch_id))
    async with context.locked_transaction(plan_finalize(project.id, branch_id, old.id, name).lock) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        check_unchanged(old, await _find_replaced_branch(rows, branch))
        if name is not None:
            await check_name_is_free(rows, project, name)
        await _share_passwords(context, rows, project, old, branch)
        first = await plan_unarchive(rows, branch)
        context.audit.add_details(replaces=old.id)
        return await context.enqueue(rows, *first, *await plan_takeover(rows, branch, old, name))


async def _share_passwords(context: Context, rows: Rows, project: Project, old: Branch, branch: Branch) -> None:
    """Those that were changed since the restore; Postgres is told by the compute that starts next."""
    vault = context.services.vault if project.store_passwords else None
    own = {role.name: role for role in await rows.roles.list_in_branch(branch.id)}
    for role in await rows.roles.list_in_branch(old.id):
        known = own.get(role.name)
        if known is None or role.verifier is None or role.verifier == known.verifier:
            continue
        copy = inheritance.copy_role(role, branch, vault, InheritedContents(roles=[], databases=[]))
        await rows.roles.save(replace(copy, created_at=known.created_at, updated_at=clock.now(), is_pending=True))


def plan_finalize(
    project_id: ProjectId, branch_id: BranchId, old_id: BranchId, name: str | None = None
) -> NewOperation:
    params = FinalizeRestoreParams(replaced_branch_id=old_id, old_name=name)
    return NewOperation(FinalizeRestore, project_id, branch_id, params=params)


async def plan_takeover(rows: Rows, branch: Branch, old: Branch, name: str | None = None) -> list[NewOperation]:
    """Computes that run are started again behind it, the one that writes first."""
    served = await rows.endpoints.list_in_branch(old.id)
    running = [each for each in served if each.is_active_or_starting]
    running.sort(key=lambda each: each.type is not EndpointType.READ_WRITE)
    starts = [
        NewOperation(StartCompute, branch.project_id, branch.id, each.id, StartComputeParams(resumes=True))
        for each in running
    ]
    return [plan_finalize(branch.project_id, branch.id, old.id, name), *starts]


async def find_current_branch(
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


def check_unchanged(before: Branch | None, now: Branch | None) -> None:
    """Between a look and the transaction that decides."""
    if (before and before.id) != (now and now.id):
        raise Busy("Another restore took that place just now. Nothing was changed; try again.")


async def _find_replaced_branch(rows: Rows, branch: Branch) -> Branch:
    """Whose place the branch takes."""
    if branch.restored_from is None:
        raise RuleViolation(
            f"The branch {branch.name!r} was not restored from a snapshot, so there is nothing to finalize."
        )
    if branch.finalized_at is not None:
        raise RuleViolation(f"The restore of the branch {branch.name!r} was finalized already.")
    target = branch.restored_for
    found = await find_current_branch(rows, branch.project_id, target, since=branch.created_at) if target else None
    if found is None:
        raise RuleViolation(
            f"The branch whose place {branch.name!r} would take is gone. Rename it, or make it the default, instead."
        )
    return found
