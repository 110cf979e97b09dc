"""What each action locks, and how the lock changes with the step of a stored operation."""

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bough.domain.catalog_change import DropRole
from bough.domain.history import HEAD, RecoveryTarget
from bough.domain.locks import LockLevel, LockScope, locks_conflict
from bough.domain.operation import Operation, OperationKind, OperationStatus
from bough.ids import BranchId, EndpointId, OperationId, ProjectId, SnapshotId, VolumeId
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions import ALL_ACTIONS
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.change_catalog import ChangeCatalog, ChangeCatalogParams
from bough.operations.actions.create_branch import CreateBranch, CreateBranchParams
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.create_snapshot import CreateSnapshot, CreateSnapshotParams, build_snapshot_creation_lock
from bough.operations.actions.delete_snapshot import DeleteSnapshot, DeleteSnapshotParams
from bough.operations.actions.finalize_restore import FinalizeRestore, FinalizeRestoreParams
from bough.operations.actions.restore_branch import RestoreBranch, RestoreBranchParams
from bough.operations.params import NoParams, Params
from bough.operations.registry import ActionRegistry
from support.stores import make_operation

HERE = ProjectId("here")
MAIN, DEV, NEXT = BranchId("br-main"), BranchId("br-dev"), BranchId("br-next")
ONE, TWO = EndpointId("ep-one"), EndpointId("ep-two")
SNAPSHOT = SnapshotId("snap-one")
TARGET = RecoveryTarget(volume_id=VolumeId("vol-old"), point=HEAD)
LEVELS = {
    OperationKind.CREATE_ROOT_BRANCH: LockLevel.BRANCH,
    OperationKind.CREATE_BRANCH: LockLevel.BRANCH,
    OperationKind.RESTORE_BRANCH: LockLevel.REPLACEMENT,
    OperationKind.FINALIZE_RESTORE: LockLevel.BRANCH,
    OperationKind.CREATE_SNAPSHOT: LockLevel.BRANCH,
    OperationKind.DELETE_SNAPSHOT: LockLevel.BRANCH,
    OperationKind.START_COMPUTE: LockLevel.ENDPOINT,
    OperationKind.SUSPEND_COMPUTE: LockLevel.ENDPOINT,
    OperationKind.APPLY_CONFIG: LockLevel.ENDPOINT,
    OperationKind.CHANGE_CATALOG: LockLevel.BRANCH,
    OperationKind.DELETE_BRANCH: LockLevel.BRANCH,
    OperationKind.APPLY_HISTORY_RETENTION: LockLevel.REPLACEMENT,
    OperationKind.ARCHIVE_BRANCH: LockLevel.BRANCH,
    OperationKind.UNARCHIVE_BRANCH: LockLevel.BRANCH,
}
PARAMS: dict[ActionType, Params] = {  # of the actions that need some
    CreateBranch: CreateBranchParams(source_id=NEXT),
    RestoreBranch: RestoreBranchParams(
        source_id=NEXT, new_volume_id=VolumeId("vol-new"), target=TARGET, preserving_branch_id=DEV
    ),
    FinalizeRestore: FinalizeRestoreParams(replaced_branch_id=DEV),
    CreateSnapshot: CreateSnapshotParams(snapshot_id=SNAPSHOT, source_id=NEXT, target=TARGET),
    DeleteSnapshot: DeleteSnapshotParams(snapshot_id=SNAPSHOT),
    ChangeCatalog: ChangeCatalogParams(change=DropRole(name="app")),
}
COPIES = {CreateBranch, RestoreBranch, CreateSnapshot}
ALSO_LOCKED = {RestoreBranch: DEV, FinalizeRestore: DEV, CreateSnapshot: SNAPSHOT, DeleteSnapshot: SNAPSHOT}


def _scope(level: LockLevel, **fields: Any) -> LockScope:
    return LockScope(level=level, project_id=HERE, **fields)


def _endpoint(endpoint_id: EndpointId = ONE) -> LockScope:
    return _scope(LockLevel.ENDPOINT, branch_id=MAIN, endpoint_id=endpoint_id)


def _copy() -> LockScope:
    return _scope(LockLevel.BRANCH, branch_id=DEV, source_id=MAIN, creates_branch=True)


def test_every_action_says_how_far_it_reaches() -> None:
    assert {action.kind for action in ALL_ACTIONS} == set(OperationKind) == set(LEVELS)


@pytest.mark.parametrize("action", list(ALL_ACTIONS), ids=lambda action: action.__name__)
def test_what_an_operation_touches_is_read_from_its_row(action: ActionType) -> None:
    params = PARAMS.get(action, NoParams())
    new = NewOperation(action, HERE, MAIN, ONE, params)
    stored = make_operation(
        HERE,
        kind=action.kind,
        branch_id=MAIN,
        endpoint_id=ONE,
        parameters=params.encode(),
        step=action.steps[0],
        status=OperationStatus.RUNNING,
    )
    expected = _scope(
        LEVELS[action.kind],
        branch_id=MAIN,
        endpoint_id=ONE,
        source_id=NEXT if action in COPIES else None,
        also_locked_id=ALSO_LOCKED.get(action),
        creates_branch=action in (CreateRootBranch, CreateBranch),
    )
    assert new.lock == expected
    assert ALL_ACTIONS.lock_of(stored) == expected


def test_a_copy_touches_its_source_and_a_change_of_roles_the_whole_branch() -> None:
    assert NewOperation(CreateBranch, HERE, DEV, params=CreateBranchParams(source_id=MAIN)).lock == _copy()
    change = NewOperation(ChangeCatalog, HERE, MAIN, ONE, ChangeCatalogParams(change=DropRole(name="app")))
    settings = NewOperation(ApplyConfig, HERE, MAIN, ONE)
    assert (change.lock.level, settings.lock.level) == (LockLevel.BRANCH, LockLevel.ENDPOINT)
    assert locks_conflict(change.lock, _endpoint(TWO))
    assert locks_conflict(change.lock, _copy())
    assert not locks_conflict(settings.lock, _endpoint(TWO))
    assert not locks_conflict(settings.lock, _copy())


def test_a_snapshot_can_be_locked_before_its_target_is_known() -> None:
    params = CreateSnapshotParams(snapshot_id=SNAPSHOT, source_id=MAIN, target=TARGET)
    assert build_snapshot_creation_lock(HERE, SNAPSHOT, MAIN) == NewOperation(CreateSnapshot, HERE, params=params).lock


def _restore(step: str) -> Operation:
    parameters = PARAMS[RestoreBranch].encode()
    status = OperationStatus.RUNNING
    return make_operation(
        HERE, kind=OperationKind.RESTORE_BRANCH, branch_id=MAIN, parameters=parameters, step=step, status=status
    )


def test_a_restore_leaves_the_branch_to_its_users_until_it_switches() -> None:
    preparing, switching = ALL_ACTIONS.lock_of(_restore("prepare")), ALL_ACTIONS.lock_of(_restore("switch"))
    source = _scope(LockLevel.BRANCH, branch_id=NEXT)
    assert (preparing.level, preparing.source_id) == (LockLevel.REPLACEMENT, NEXT)
    assert locks_conflict(preparing, source)  # the source must not change while it is copied
    assert (switching.level, switching.source_id) == (LockLevel.BRANCH, None)
    assert not locks_conflict(switching, source)  # two branches that restore from each other do not deadlock
    waiting = replace(_restore("prepare"), status=OperationStatus.SCHEDULING)
    assert ALL_ACTIONS.lock_of(waiting) == preparing


def test_what_is_started_after_a_restore_is_in_nobodys_way_before() -> None:
    waiting = make_operation(
        HERE,
        kind=OperationKind.START_COMPUTE,
        branch_id=MAIN,
        endpoint_id=ONE,
        parameters={"resumes": True},
        status=OperationStatus.SCHEDULING,
    )
    lock = ALL_ACTIONS.lock_of(waiting)
    assert not locks_conflict(lock, _endpoint())
    assert not locks_conflict(lock, _scope(LockLevel.BRANCH, branch_id=MAIN, also_locked_id=DEV))
    assert locks_conflict(lock, _scope(LockLevel.PROJECT))
    running = replace(waiting, status=OperationStatus.RUNNING)
    assert locks_conflict(ALL_ACTIONS.lock_of(running), _endpoint())


@pytest.mark.parametrize("parameters", [{}, {"version": 2, "source_id": "br-next"}])
def test_an_operation_that_cannot_be_decoded_locks_its_project_and_is_not_undone(parameters: dict[str, Any]) -> None:
    unreadable = replace(_restore("prepare"), parameters=parameters)
    assert ALL_ACTIONS.lock_of(unreadable) == _scope(LockLevel.PROJECT)
    assert not ALL_ACTIONS.can_undo(unreadable)
    assert ALL_ACTIONS.can_undo(_restore("prepare"))


def test_an_operation_that_cannot_be_decoded_is_logged_once() -> None:
    registry, unreadable = ActionRegistry(ALL_ACTIONS), replace(_restore("prepare"), parameters={})
    other = replace(unreadable, id=OperationId.new())
    with capture_logs() as lines:
        for operation in (unreadable, other, unreadable):
            registry.lock_of(operation)
    assert [line["operation_id"] for line in lines if line["event"] == "operation_not_decodable"] == [
        unreadable.id,
        other.id,
    ]
