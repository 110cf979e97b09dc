"""Which operations may not run beside one another."""

from dataclasses import replace

import pytest

from bough.domain.change import DropRole, written
from bough.domain.operation import (
    ALSO,
    CHANGE,
    MAKES_BRANCH,
    PREPARING,
    REACH,
    RESUMES,
    SOURCE,
    VARIANT,
    Operation,
    OperationAction,
    OperationStatus,
    Reach,
    Touch,
    Variant,
    conflict,
    touch_of,
)
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import Wish
from stores import an_operation

HERE, ELSEWHERE = ProjectId("here"), ProjectId("elsewhere")
MAIN, DEV, NEXT = BranchId("br-main"), BranchId("br-dev"), BranchId("br-next")
ONE, TWO = EndpointId("ep-one"), EndpointId("ep-two")


def project(where: ProjectId = HERE) -> Touch:
    return Touch(reach=Reach.PROJECT, project_id=where)


def branch(which: BranchId = MAIN, where: ProjectId = HERE) -> Touch:
    return Touch(reach=Reach.BRANCH, project_id=where, branch_id=which)


def endpoint(which: EndpointId = ONE, on: BranchId = MAIN, where: ProjectId = HERE) -> Touch:
    return Touch(reach=Reach.ENDPOINT, project_id=where, branch_id=on, endpoint_id=which)


def copy(source: BranchId = MAIN, to: BranchId = DEV, where: ProjectId = HERE) -> Touch:
    """The making of a branch out of another."""
    return Touch(reach=Reach.BRANCH, project_id=where, branch_id=to, source_id=source, makes_branch=True)


def making(which: BranchId = MAIN) -> Touch:
    return Touch(reach=Reach.BRANCH, project_id=HERE, branch_id=which, makes_branch=True)


def preparing(which: BranchId = MAIN, also: BranchId | None = None) -> Touch:
    """A restore that makes what it will switch to."""
    return Touch(reach=Reach.BESIDE, project_id=HERE, branch_id=which, also_id=also)


def switching(which: BranchId = MAIN, also: BranchId | None = DEV) -> Touch:
    return Touch(reach=Reach.BRANCH, project_id=HERE, branch_id=which, also_id=also)


def naming(which: BranchId = MAIN) -> Touch:
    """A change of what the branch's row says."""
    return Touch(reach=Reach.ENDPOINT, project_id=HERE, branch_id=which)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (copy(), copy(to=NEXT), False),  # one parent, two children
        (copy(), copy(MAIN, DEV), True),
        (copy(), copy(DEV, NEXT), False),  # a grandchild stands in line behind its parent
        (copy(), making(MAIN), False),
        (copy(), making(DEV), True),
        (copy(), branch(MAIN), True),  # a change to the parent's roles, or its deletion
        (copy(), branch(DEV), True),
        (copy(), branch(NEXT), False),
        (copy(), branch(MAIN, ELSEWHERE), False),
        (copy(), endpoint(), False),  # the parent goes on serving
        (copy(), endpoint(TWO, DEV), True),
        (copy(), naming(MAIN), False),
        (copy(), naming(DEV), True),
        (copy(), project(), True),
        (naming(), naming(), False),
        (naming(), endpoint(), False),
        (naming(), branch(), True),
        (naming(), branch(DEV), False),
        (preparing(), preparing(), True),
        (preparing(), preparing(DEV), False),
        (preparing(), endpoint(), False),  # its clients go on meanwhile
        (preparing(), copy(), False),
        (preparing(), branch(), True),
        (preparing(also=DEV), branch(DEV), True),
        (preparing(also=DEV), endpoint(TWO, DEV), True),  # it has no data before the switch
        (preparing(also=DEV), naming(DEV), True),
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
def test_touches_conflict_both_ways_or_not_at_all(one: Touch, other: Touch, expected: bool) -> None:
    assert conflict(one, other) is expected
    assert conflict(other, one) is expected


def test_every_action_says_how_far_it_reaches() -> None:
    assert set(REACH) == set(OperationAction)


@pytest.mark.parametrize("action", OperationAction)
def test_what_an_operation_touches_is_read_from_its_row(action: OperationAction) -> None:
    touch = touch_of(Wish(action, HERE, MAIN, ONE))
    assert touch == Touch(
        reach=REACH[action], project_id=HERE, branch_id=MAIN, endpoint_id=ONE, makes_branch=action in MAKES_BRANCH
    )


def test_a_copy_touches_its_source_and_a_change_of_roles_the_whole_branch() -> None:
    assert touch_of(Wish(OperationAction.CREATE_BRANCH, HERE, DEV, parameters={SOURCE: MAIN})) == copy()
    change = Wish(OperationAction.APPLY_CONFIG, HERE, MAIN, ONE, {CHANGE: written(DropRole(name="app"))})
    settings = Wish(OperationAction.APPLY_CONFIG, HERE, MAIN, ONE)
    assert (change.touch.reach, settings.touch.reach) == (Reach.BRANCH, Reach.ENDPOINT)
    assert conflict(change.touch, endpoint(TWO))
    assert conflict(change.touch, copy())
    assert not conflict(settings.touch, endpoint(TWO))
    assert not conflict(settings.touch, copy())


def _restoring(step: str) -> Operation:
    parameters = {VARIANT: Variant.RESTORE, SOURCE: NEXT, ALSO: DEV}
    fields = {"action": OperationAction.CREATE_TIMELINE, "branch_id": MAIN, "parameters": parameters, "step": step}
    return an_operation(HERE, **fields)


def test_a_restore_leaves_the_branch_to_its_users_until_it_switches() -> None:
    preparing_it, switching_it = touch_of(_restoring(PREPARING)), touch_of(_restoring("switch"))
    assert (preparing_it.reach, preparing_it.source_id) == (Reach.BESIDE, NEXT)
    assert conflict(preparing_it, branch(NEXT))  # what it copies must stay
    assert (switching_it.reach, switching_it.source_id) == (Reach.BRANCH, None)
    assert not conflict(switching_it, branch(NEXT))  # two that restore from each other wait for neither


def test_what_is_started_after_a_restore_is_in_nobodys_way_before() -> None:
    fields = {"action": OperationAction.START_COMPUTE, "branch_id": MAIN, "endpoint_id": ONE}
    waiting = an_operation(HERE, **fields, parameters={RESUMES: True}, status=OperationStatus.SCHEDULING)
    assert not conflict(touch_of(waiting), endpoint())
    assert not conflict(touch_of(waiting), switching())
    assert conflict(touch_of(waiting), project())
    assert conflict(touch_of(replace(waiting, status=OperationStatus.RUNNING)), endpoint())
