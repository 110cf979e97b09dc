"""Which locks of operations conflict."""

import pytest

from bough.domain.locks import LockLevel, LockScope, locks_conflict
from bough.ids import BranchId, EndpointId, ProjectId

HERE, ELSEWHERE = ProjectId("here"), ProjectId("elsewhere")
MAIN, DEV, NEXT = BranchId("br-main"), BranchId("br-dev"), BranchId("br-next")
ONE, TWO = EndpointId("ep-one"), EndpointId("ep-two")


def project(where: ProjectId = HERE) -> LockScope:
    return LockScope.project(where)


def branch(which: BranchId = MAIN, where: ProjectId = HERE) -> LockScope:
    return LockScope(level=LockLevel.BRANCH, project_id=where, branch_id=which)


def endpoint(which: EndpointId = ONE, on: BranchId = MAIN, where: ProjectId = HERE) -> LockScope:
    return LockScope(level=LockLevel.ENDPOINT, project_id=where, branch_id=on, endpoint_id=which)


def copy(source: BranchId = MAIN, to: BranchId = DEV, where: ProjectId = HERE) -> LockScope:
    """The creation of a branch from another one."""
    return LockScope(level=LockLevel.BRANCH, project_id=where, branch_id=to, source_id=source, creates_branch=True)


def creating(which: BranchId = MAIN) -> LockScope:
    return LockScope(level=LockLevel.BRANCH, project_id=HERE, branch_id=which, creates_branch=True)


def preparing(which: BranchId = MAIN, also: BranchId | None = None) -> LockScope:
    """A restore before it switches to the new volume."""
    return LockScope(level=LockLevel.REPLACEMENT, project_id=HERE, branch_id=which, also_locked_id=also)


def switching(which: BranchId = MAIN, also: BranchId | None = DEV) -> LockScope:
    return LockScope(level=LockLevel.BRANCH, project_id=HERE, branch_id=which, also_locked_id=also)


def updating(which: BranchId = MAIN) -> LockScope:
    """A change of the row of the branch, such as its name."""
    return LockScope(level=LockLevel.ENDPOINT, project_id=HERE, branch_id=which)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (copy(), copy(to=NEXT), False),  # one parent, two children
        (copy(), copy(MAIN, DEV), True),
        (copy(), copy(DEV, NEXT), False),  # a grandchild waits for its parent
        (copy(), creating(MAIN), False),
        (copy(), creating(DEV), True),
        (copy(), branch(MAIN), True),  # a change to the parent's roles, or its deletion
        (copy(), branch(DEV), True),
        (copy(), branch(NEXT), False),
        (copy(), branch(MAIN, ELSEWHERE), False),
        (copy(), endpoint(), False),  # the parent keeps serving
        (copy(), endpoint(TWO, DEV), True),
        (copy(), updating(MAIN), False),
        (copy(), updating(DEV), True),
        (copy(), project(), True),
        (updating(), updating(), False),
        (updating(), endpoint(), False),
        (updating(), branch(), True),
        (updating(), branch(DEV), False),
        (preparing(), preparing(), True),
        (preparing(), preparing(DEV), False),
        (preparing(), endpoint(), False),  # its clients are not disconnected yet
        (preparing(), copy(), False),
        (preparing(), branch(), True),
        (preparing(also=DEV), branch(DEV), True),
        (preparing(also=DEV), endpoint(TWO, DEV), True),  # it has no data before the switch
        (preparing(also=DEV), updating(DEV), True),
        (preparing(also=DEV), copy(DEV, NEXT), True),
        (switching(), endpoint(), True),
        (switching(), endpoint(TWO, DEV), True),
        (switching(), copy(), True),
        (switching(), copy(DEV, NEXT), True),
        (switching(), endpoint(TWO, NEXT), False),
        (project(), project(), True),
        (project(), branch(), True),
        (project(), endpoint(), True),
        (project(), endpoint(where=ELSEWHERE), False),
        (branch(), branch(), True),
        (branch(), branch(DEV), False),
        (branch(), endpoint(), True),
        (branch(DEV), endpoint(), False),
        (endpoint(), endpoint(), True),
        (endpoint(), endpoint(TWO), False),
        (endpoint(), endpoint(TWO, DEV), False),
    ],
)
def test_touches_conflict_both_ways_or_not_at_all(one: LockScope, other: LockScope, expected: bool) -> None:
    assert locks_conflict(one, other) is expected
    assert locks_conflict(other, one) is expected
