"""Operations stored by version 0.1 run under this version: the rows are written here as that version wrote them."""

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

from bough.domain.catalog_change import CreateDatabase
from bough.domain.history import RecoveryTarget
from bough.domain.operation import Operation, OperationStatus
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.operations.actions.change_catalog import ChangeCatalog, ChangeCatalogParams
from bough.operations.actions.create_branch import CreateBranch, CreateBranchParams
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.create_snapshot import CreateSnapshot, CreateSnapshotParams
from bough.operations.actions.delete_branch import DeleteBranch
from bough.operations.actions.delete_snapshot import DeleteSnapshot, DeleteSnapshotParams
from bough.operations.actions.finalize_restore import FinalizeRestore, FinalizeRestoreParams
from bough.operations.actions.restore_branch import RestoreBranch, RestoreBranchParams
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.actions.unarchive_branch import UnarchiveBranch
from bough.store.sqlite import SqliteStore
from operations.scenarios import SCENARIOS
from operations.test_every_action import Setting, enqueue, reload
from support.platform import Platform

Row = tuple[str, dict[str, Any], str]  # action, parameters and step
WITHOUT_PARAMETERS: dict[ActionType, tuple[str, str]] = {
    CreateRootBranch: ("create_timeline", "make_volume"),
    StartCompute: ("start_compute", "launch"),
    SuspendCompute: ("suspend_compute", "stop"),
    ApplyConfig: ("apply_config", "apply"),
    ApplyHistoryRetention: ("apply_storage_config", "apply"),
    DeleteBranch: ("delete_timeline", "stop"),
    ArchiveBranch: ("timeline_archive", "pack"),
    UnarchiveBranch: ("timeline_unarchive", "unpack"),
}


def _target(target: RecoveryTarget | None) -> dict[str, Any]:
    if target is None:
        return {}
    at = target.point.at
    assert at is None or isinstance(at, datetime)
    times = {} if at is None else {"target_at": at.isoformat()}
    return {"target_volume_id": target.volume_id, **times}


def stored_row(new: NewOperation) -> Row:
    """The row that version 0.1 stored for the operation."""
    match new.params:
        case CreateBranchParams() as params:
            own = {"source_id": params.source_id, "rekeys": params.replaces_passwords}
            return "create_branch", {**own, **_target(params.target)}, "make_volume"
        case RestoreBranchParams() as params:
            restore = {"variant": "restore", "source_id": params.source_id, "makes_volume_id": params.new_volume_id}
            kept = {"also_id": params.preserving_branch_id} if params.preserving_branch_id else {}
            return "create_timeline", {**restore, **_target(params.target), **kept}, "prepare"
        case FinalizeRestoreParams() as params:
            return "create_timeline", {"variant": "finalize", "also_id": params.replaced_branch_id}, "switch"
        case CreateSnapshotParams() as params:
            ids = {"snapshot_id": params.snapshot_id, "also_id": params.snapshot_id, "source_id": params.source_id}
            return "create_branch", {"variant": "snapshot", **ids, **_target(params.target)}, "copy"
        case DeleteSnapshotParams(snapshot_id=own_id):
            return "delete_timeline", {"variant": "snapshot", "snapshot_id": own_id, "also_id": own_id}, "remove"
        case ChangeCatalogParams(change=CreateDatabase(name=name, owner=owner)):
            return "apply_config", {"change": {"kind": "make_database", "name": name, "owner": owner}}, "apply"
        case _:
            action, step = WITHOUT_PARAMETERS[new.action]
            return action, {}, step


def read_row(platform: Platform, operation: Operation) -> Row:
    assert isinstance(platform.store, SqliteStore)
    with closing(sqlite3.connect(platform.store.path)) as connection:
        statement = "select action, parameters, step from operations where id = ?"
        action, parameters, step = connection.execute(statement, (operation.id,)).fetchone()
    return action, json.loads(parameters), step


def write_row(platform: Platform, operation: Operation, row: Row) -> None:
    assert isinstance(platform.store, SqliteStore)
    action, parameters, step = row
    with closing(sqlite3.connect(platform.store.path)) as connection, connection:
        statement = "update operations set action = ?, parameters = ?, step = ? where id = ?"
        connection.execute(statement, (action, json.dumps(parameters), step, operation.id))


async def run_to_end(platform: Platform, operation: Operation) -> Operation:
    while not (found := await reload(platform, operation)).has_ended:
        await platform.run_operations()
        await asyncio.sleep(0.02)
    return found


def test_every_action_with_parameters_has_a_stored_row() -> None:
    with_parameters = {CreateBranch, RestoreBranch, FinalizeRestore, CreateSnapshot, DeleteSnapshot, ChangeCatalog}
    assert {action for action, _ in SCENARIOS} == with_parameters | set(WITHOUT_PARAMETERS)


ROWS = [
    pytest.param(action, setting, marks=[pytest.mark.long] if action in WITHOUT_PARAMETERS else [])
    for action, setting in SCENARIOS
]


@pytest.mark.parametrize(("action", "setting"), ROWS, ids=lambda part: part.__name__.strip("_"))
async def test_an_operation_of_the_last_version_runs(platform: Platform, action: ActionType, setting: Setting) -> None:
    scenario = await setting(platform)
    operation = await enqueue(platform, scenario)
    row = stored_row(scenario.operation)
    assert read_row(platform, operation) == row  # the last version can read what this one writes
    write_row(platform, operation, row)
    assert (await reload(platform, operation)).kind is action.kind
    ended = await run_to_end(platform, operation)
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 0)
    assert read_row(platform, operation)[:2] == row[:2]


async def test_a_branch_whose_row_names_no_source_is_created_from_its_parent(platform: Platform) -> None:
    """As the first version stored it, before branches could be created at a point."""
    scenario = await dict(SCENARIOS)[CreateBranch](platform)
    operation = await enqueue(platform, scenario)
    write_row(platform, operation, ("create_branch", {"rekeys": True}, "make_volume"))
    ended = await run_to_end(platform, operation)
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 0)
