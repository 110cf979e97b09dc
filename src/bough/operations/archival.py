"""Archived branches come back by themselves as soon as somebody uses them, and their ancestors with them.

Whatever needs a branch's data asks here first, and puts the work that it is given before its own.
"""

from collections.abc import Sequence

from bough.domain.branch import Branch, BranchState
from bough.domain.operation import OperationAction
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId, ProjectId
from bough.operations.action import NewOperation
from bough.store.store import Rows


async def plan_unarchive(rows: Rows, branch: Branch) -> list[NewOperation]:
    """The work that brings back the branch and its ancestors, the eldest first; none when none of them is archived.

    Nearly always none, found out by one row for each ancestor.
    """
    line = [branch]
    while (parent_id := line[-1].parent_id) is not None:
        parent = await rows.branches.get(branch.project_id, parent_id)
        if parent is None or parent.id in {each.id for each in line}:
            break
        line.append(parent)
    return [
        _unarchive_operation(each)
        for each in reversed(line)
        if each.state is BranchState.ARCHIVED and each.deleted_at is None
    ]


async def plan_unarchive_by_id(rows: Rows, project_id: ProjectId, branch_id: BranchId) -> list[NewOperation]:
    """The same for whoever connects: one row by its key, unless the branch itself is archived."""
    branch = await rows.branches.get(project_id, branch_id)
    if branch is None or branch.state is not BranchState.ARCHIVED:
        return []
    return await plan_unarchive(rows, branch)


def plan_archive(branch: Branch, endpoints: Sequence[object]) -> NewOperation:
    """The work, to be put behind the making of the branch, for a caller who asked for `archived`."""
    if endpoints:
        raise Invalid("An archived branch has no compute that runs: leave out archived, or the endpoints.")
    if branch.is_protected:
        raise RuleViolation(f"The branch {branch.name!r} is protected, and a protected branch cannot be archived.")
    return NewOperation(OperationAction.TIMELINE_ARCHIVE, branch.project_id, branch.id)


def _unarchive_operation(branch: Branch) -> NewOperation:
    return NewOperation(OperationAction.TIMELINE_UNARCHIVE, branch.project_id, branch.id)
