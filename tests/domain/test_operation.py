"""Which operations may not run beside one another."""

import pytest

from bough.domain.operation import REACH, OperationAction, Reach, Touch, conflict
from bough.ids import BranchId, EndpointId, ProjectId

HERE, ELSEWHERE = ProjectId("here"), ProjectId("elsewhere")
MAIN, DEV = BranchId("br-main"), BranchId("br-dev")
ONE, TWO = EndpointId("ep-one"), EndpointId("ep-two")


def project(where: ProjectId = HERE) -> Touch:
    return Touch(reach=Reach.PROJECT, project_id=where)


def branch(which: BranchId = MAIN, where: ProjectId = HERE) -> Touch:
    return Touch(reach=Reach.BRANCH, project_id=where, branch_id=which)


def endpoint(which: EndpointId = ONE, on: BranchId = MAIN, where: ProjectId = HERE) -> Touch:
    return Touch(reach=Reach.ENDPOINT, project_id=where, branch_id=on, endpoint_id=which)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
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
def test_touches_conflict_both_ways_or_not_at_all(one: Touch, other: Touch, expected: bool) -> None:
    assert conflict(one, other) is expected
    assert conflict(other, one) is expected


def test_every_action_says_how_far_it_reaches() -> None:
    assert set(REACH) == set(OperationAction)
