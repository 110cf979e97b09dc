"""Operations that archive and unarchive branches.

An archived branch is unarchived when it is used, together with its archived ancestors. Whatever needs the data of a
branch calls `plan_unarchive` and enqueues these operations before its own.
"""

from collections.abc import Sequence

from bough.domain.branch import Branch, BranchState
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.operations.actions.unarchive_branch import UnarchiveBranch
from bough.store.store import Rows


async def plan_unarchive(rows: Rows, branch: Branch) -> list[NewOperation]:
    """Return operations that unarchive the branch and its ancestors, the oldest ancestor first.

    Usually there are none; finding out takes one row per ancestor.
    """
    ancestry = [branch]
    while (parent_id := ancestry[-1].parent_id) is not None:
        parent = await rows.branches.get(branch.project_id, parent_id)
        if parent is None or parent.id in {each.id for each in ancestry}:
            break
        ancestry.append(parent)
    return [
        NewOperation(UnarchiveBranch, each.project_id, each.id)
        for each in reversed(ancestry)
        if each.state is BranchState.ARCHIVED and each.deleted_at is None
    ]


async def plan_unarchive_by_id(rows: Rows, project_id: ProjectId, branch_id: BranchId) -> list[NewOperation]:
    """Return the same for a connecting client: read one row, unless the branch itself is archived."""
    branch = await rows.branches.get(project_id, branch_id)
    if branch is None or branch.state is not BranchState.ARCHIVED:
        return []
    return await plan_unarchive(rows, branch)


def plan_archive(branch: Branch, endpoints: Sequence[object]) -> NewOperation:
    """Return the operation that archives a new branch, for a request with `archived`; it runs after the creation."""
    if endpoints:
        raise Invalid("An archived branch cannot have a running compute: omit archived, or omit the endpoints.")
    if branch.is_protected:
        raise RuleViolation(f"The branch {branch.name!r} is protected, and protected branches cannot be archived.")
    return NewOperation(ArchiveBranch, branch.project_id, branch.id)
