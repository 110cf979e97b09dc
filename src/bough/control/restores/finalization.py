"""Finalizes a restore: a branch restored from a snapshot replaces another branch, which stays under a new name."""

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
    """Give the branch the endpoints and name of the replaced one, which is renamed to `name` or `… (old)`."""
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
    """Copy passwords that were changed since the restore; the next compute start applies them in Postgres."""
    vault = context.services.vault if project.store_passwords else None
    own_roles = {role.name: role for role in await rows.roles.list_in_branch(branch.id)}
    for role in await rows.roles.list_in_branch(old.id):
        known = own_roles.get(role.name)
        if known is None or role.verifier is None or role.verifier == known.verifier:
            continue
        copy = inheritance.copy_role(role, branch, vault, InheritedContents(roles=[], databases=[]))
        await rows.roles.save(replace(copy, created_at=known.created_at, updated_at=clock.now(), is_pending=True))


def plan_finalize(
    project_id: ProjectId, branch_id: BranchId, old_id: BranchId, name: str | None = None
) -> NewOperation:
    params = FinalizeRestoreParams(replaced_branch_id=old_id, replaced_branch_name=name)
    return NewOperation(FinalizeRestore, project_id, branch_id, params=params)


async def plan_takeover(rows: Rows, branch: Branch, old: Branch, name: str | None = None) -> list[NewOperation]:
    """Return the operations of the replacement; running computes are restarted after it, the primary first."""
    endpoints = await rows.endpoints.list_in_branch(old.id)
    running = [each for each in endpoints if each.is_active_or_starting]
    running.sort(key=lambda each: each.type is not EndpointType.READ_WRITE)
    starts = [
        NewOperation(StartCompute, branch.project_id, branch.id, each.id, StartComputeParams(resumes=True))
        for each in running
    ]
    return [plan_finalize(branch.project_id, branch.id, old.id, name), *starts]


async def find_current_branch(
    rows: Rows, project_id: ProjectId, branch_id: BranchId, since: datetime | None = None
) -> Branch | None:
    """Return the branch itself or the last existing one that replaced it (since a moment)."""
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
    """Raise Busy if the branch changed between the first read and the transaction."""
    if (before and before.id) != (now and now.id):
        raise Busy("Another restore replaced this branch in the meantime. Nothing was changed; try again.")


async def _find_replaced_branch(rows: Rows, branch: Branch) -> Branch:
    """Return the branch that this one replaces."""
    if branch.restored_from is None:
        raise RuleViolation(
            f"The branch {branch.name!r} was not restored from a snapshot, so there is nothing to finalize."
        )
    if branch.finalized_at is not None:
        raise RuleViolation(f"The restore of the branch {branch.name!r} is already finalized.")
    target = branch.restored_for
    found = await find_current_branch(rows, branch.project_id, target, since=branch.created_at) if target else None
    if found is None:
        raise RuleViolation(
            f"The branch that {branch.name!r} would replace no longer exists. Rename {branch.name!r} or make it the "
            "default branch instead."
        )
    return found
