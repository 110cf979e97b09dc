"""Which operations may not run beside one another."""

from dataclasses import replace

import pytest

from bough.domain.catalog_change import DropRole, encode_change
from bough.domain.operation import (
    ALSO_LOCKED_KEY,
    CHANGE_KEY,
    CREATES_BRANCH,
    LOCK_LEVELS,
    PREPARE_STEP,
    RESUMES_KEY,
    SOURCE_KEY,
    VARIANT_KEY,
    LockLevel,
    LockScope,
    Operation,
    OperationAction,
    OperationStatus,
    Variant,
    lock_of,
    locks_conflict,
)
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import NewOperation
from support.stores import make_operation

HERE, ELSEWHERE = ProjectId("here"), ProjectId("elsewhere")
MAIN, DEV, NEXT = BranchId("br-main"), BranchId("br-dev"), BranchId("br-next")
ONE, TWO = EndpointId("ep-one"), EndpointId("ep-two")


def project(where: ProjectId = HERE) -> LockScope:
    return LockScope(level=LockLevel.PROJECT, project_id=where)


def branch(which: BranchId = MAIN, where: ProjectId = HERE) -> LockScope:
    return LockScope(level=LockLevel.BRANCH, project_id=where, branch_id=which)


def endpoint(which: EndpointId = ONE, on: BranchId = MAIN, where: ProjectId = HERE) -> LockScope:
    return LockScope(level=LockLevel.ENDPOINT, project_id=where, branch_id=on, endpoint_id=which)


def copy(source: BranchId = MAIN, to: BranchId = DEV, where: ProjectId = HERE) -> LockScope:
    """The making of a branch out of another."""
    return LockScope(level=LockLevel.BRANCH, project_id=where, branch_id=to, source_id=source, creates_branch=True)


def making(which: BranchId = MAIN) -> LockScope:
    return LockScope(level=LockLevel.BRANCH, project_id=HERE, branch_id=which, creates_branch=True)


def preparing(which: BranchId = MAIN, also: BranchId | None = None) -> LockScope:
    """A restore that makes what it will switch to."""
    return LockScope(level=LockLevel.REPLACEMENT, project_id=HERE, branch_id=which, also_locked_id=also)


def switching(which: BranchId = MAIN, also: BranchId | None = DEV) -> LockScope:
    return LockScope(level=LockLevel.BRANCH, project_id=HERE, branch_id=which, also_locked_id=also)


def naming(which: BranchId = MAIN) -> LockScope:
    """A change of what the branch's row says."""
    return LockScope(level=LockLevel.ENDPOINT, project_id=HERE, branch_id=which)


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
def test_touches_conflict_both_ways_or_not_at_all(one: LockScope, other: LockScope, expected: bool) -> None:
    assert locks_conflict(one, other) is expected
    assert locks_conflict(other, one) is expected


def test_every_action_says_how_far_it_reaches() -> None:
    assert set(LOCK_LEVELS) == set(OperationAction)


@pytest.mark.parametrize("action", OperationAction)
def test_what_an_operation_touches_is_read_from_its_row(action: OperationAction) -> None:
    touch = lock_of(NewOperation(action, HERE, MAIN, ONE))
    assert touch == LockScope(
        level=LOCK_LEVELS[action],
        project_id=HERE,
        branch_id=MAIN,
        endpoint_id=ONE,
        creates_branch=action in CREATES_BRANCH,
    )


def test_a_copy_touches_its_source_and_a_change_of_roles_the_whole_branch() -> None:
    assert lock_of(NewOperation(OperationAction.CREATE_BRANCH, HERE, DEV, parameters={SOURCE_KEY: MAIN})) == copy()
    change = NewOperation(
        OperationAction.APPLY_CONFIG, HERE, MAIN, ONE, {CHANGE_KEY: encode_change(DropRole(name="app"))}
    )
    settings = NewOperation(OperationAction.APPLY_CONFIG, HERE, MAIN, ONE)
    assert (change.lock.level, settings.lock.level) == (LockLevel.BRANCH, LockLevel.ENDPOINT)
    assert locks_conflict(change.lock, endpoint(TWO))
    assert locks_conflict(change.lock, copy())
    assert not locks_conflict(settings.lock, endpoint(TWO))
    assert not locks_conflict(settings.lock, copy())


def _restoring(step: str) -> Operation:
    parameters = {VARIANT_KEY: Variant.RESTORE, SOURCE_KEY: NEXT, ALSO_LOCKED_KEY: DEV}
    fields = {"action": OperationAction.CREATE_TIMELINE, "branch_id": MAIN, "parameters": parameters, "step": step}
    return make_operation(HERE, **fields)


def test_a_restore_leaves_the_branch_to_its_users_until_it_switches() -> None:
    preparing_it, switching_it = lock_of(_restoring(PREPARE_STEP)), lock_of(_restoring("switch"))
    assert (preparing_it.level, preparing_it.source_id) == (LockLevel.REPLACEMENT, NEXT)
    assert locks_conflict(preparing_it, branch(NEXT))  # what it copies must stay
    assert (switching_it.level, switching_it.source_id) == (LockLevel.BRANCH, None)
    assert not locks_conflict(switching_it, branch(NEXT))  # two that restore from each other wait for neither


def test_what_is_started_after_a_restore_is_in_nobodys_way_before() -> None:
    fields = {"action": OperationAction.START_COMPUTE, "branch_id": MAIN, "endpoint_id": ONE}
    waiting = make_operation(HERE, **fields, parameters={RESUMES_KEY: True}, status=OperationStatus.SCHEDULING)
    assert not locks_conflict(lock_of(waiting), endpoint())
    assert not locks_conflict(lock_of(waiting), switching())
    assert locks_conflict(lock_of(waiting), project())
    assert locks_conflict(lock_of(replace(waiting, status=OperationStatus.RUNNING)), endpoint())
