"""Typed parameters of operations: the stored format, which version 0.1 also reads and writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

import pytest

from bough.domain.catalog_change import (
    AlterDatabase,
    CreateDatabase,
    CreateRole,
    DropDatabase,
    DropRole,
    SetPassword,
)
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.domain.operation import decode_kind, encode_kind
from bough.ids import BranchId, ProjectId, SnapshotId, VolumeId
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions import ALL_ACTIONS
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.operations.actions.change_catalog import ChangeCatalog, ChangeCatalogParams, PreviousDatabase
from bough.operations.actions.create_branch import CreateBranch, CreateBranchParams
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.create_snapshot import CreateSnapshot, CreateSnapshotParams
from bough.operations.actions.delete_branch import DeleteBranch, DeleteBranchParams
from bough.operations.actions.delete_snapshot import DeleteSnapshot, DeleteSnapshotParams
from bough.operations.actions.finalize_restore import FinalizeRestore, FinalizeRestoreParams
from bough.operations.actions.restore_branch import RestoreBranch, RestoreBranchParams
from bough.operations.actions.start_compute import StartCompute, StartComputeParams
from bough.operations.actions.suspend_compute import SuspendCompute, SuspendComputeParams
from bough.operations.actions.unarchive_branch import UnarchiveBranch
from bough.operations.params import NoParams, Params, UndecodableParams

Json = dict[str, Any]
MAIN, OLD, SNAPSHOT = BranchId("br-main"), BranchId("br-old"), SnapshotId("snap-one")
VOLUME = VolumeId("vol-old")
AT = datetime(2026, 11, 18, 10, 30, tzinfo=UTC)
HEAD_OF_VOLUME = RecoveryTarget(volume_id=VOLUME, point=HEAD)
AT_LSN = RecoveryTarget(volume_id=VOLUME, point=Point(lsn="0/1A2B3C"))
AT_TIME = RecoveryTarget(volume_id=VOLUME, point=Point(at=AT))
SNAPSHOT_IDS = {"snapshot_id": "snap-one", "also_id": "snap-one"}


def _change(change: Any, previous: PreviousDatabase | None = None) -> ChangeCatalogParams:
    return ChangeCatalogParams(change=change, previous=previous)


# The rows of version 0.1: column action, column parameters, and what they mean.
STORED: list[tuple[str, Json, ActionType, Params]] = [
    ("create_timeline", {}, CreateRootBranch, NoParams()),
    ("create_branch", {"source_id": "br-main", "rekeys": False}, CreateBranch, CreateBranchParams(source_id=MAIN)),
    (
        "create_branch",
        {"source_id": "br-main", "rekeys": True, "target_volume_id": "vol-old", "target_lsn": "0/1A2B3C"},
        CreateBranch,
        CreateBranchParams(source_id=MAIN, replaces_passwords=True, target=AT_LSN),
    ),
    (
        "create_branch",
        {
            "source_id": "br-main",
            "rekeys": False,
            "target_volume_id": "vol-old",
            "target_at": "2026-11-18T10:30:00+00:00",
        },
        CreateBranch,
        CreateBranchParams(source_id=MAIN, target=AT_TIME),
    ),
    (
        "create_timeline",
        {"variant": "restore", "source_id": "br-main", "makes_volume_id": "vol-new", "target_volume_id": "vol-old"},
        RestoreBranch,
        RestoreBranchParams(source_id=MAIN, new_volume_id=VolumeId("vol-new"), target=HEAD_OF_VOLUME),
    ),
    (
        "create_timeline",
        {
            "variant": "restore",
            "source_id": "br-main",
            "makes_volume_id": "vol-new",
            "target_volume_id": "vol-old",
            "target_lsn": "0/1A2B3C",
            "also_id": "br-old",
        },
        RestoreBranch,
        RestoreBranchParams(source_id=MAIN, new_volume_id=VolumeId("vol-new"), target=AT_LSN, preserving_branch_id=OLD),
    ),
    (
        "create_timeline",
        {"variant": "finalize", "also_id": "br-old"},
        FinalizeRestore,
        FinalizeRestoreParams(replaced_branch_id=OLD),
    ),
    (
        "create_timeline",
        {"variant": "finalize", "also_id": "br-old", "old_name": "before"},
        FinalizeRestore,
        FinalizeRestoreParams(replaced_branch_id=OLD, replaced_branch_name="before"),
    ),
    (
        "create_branch",
        {"variant": "snapshot", **SNAPSHOT_IDS, "source_id": "br-main", "target_volume_id": "vol-old"},
        CreateSnapshot,
        CreateSnapshotParams(snapshot_id=SNAPSHOT, source_id=MAIN, target=HEAD_OF_VOLUME),
    ),
    (
        "delete_timeline",
        {"variant": "snapshot", **SNAPSHOT_IDS},
        DeleteSnapshot,
        DeleteSnapshotParams(snapshot_id=SNAPSHOT),
    ),
    ("start_compute", {}, StartCompute, StartComputeParams()),
    ("start_compute", {"resumes": True}, StartCompute, StartComputeParams(resumes=True)),
    ("suspend_compute", {}, SuspendCompute, SuspendComputeParams()),
    ("suspend_compute", {"when_quiet": True}, SuspendCompute, SuspendComputeParams(only_if_idle=True)),
    ("suspend_compute", {"afresh": True}, SuspendCompute, SuspendComputeParams(discards_copy=True)),
    ("apply_config", {}, ApplyConfig, NoParams()),
    (
        "apply_config",
        {"change": {"kind": "make_role", "name": "app", "can_login": True}},
        ChangeCatalog,
        _change(CreateRole(name="app")),
    ),
    (
        "apply_config",
        {"change": {"kind": "set_password", "name": "app"}},
        ChangeCatalog,
        _change(SetPassword(name="app")),
    ),
    ("apply_config", {"change": {"kind": "drop_role", "name": "app"}}, ChangeCatalog, _change(DropRole(name="app"))),
    (
        "apply_config",
        {"change": {"kind": "make_database", "name": "second", "owner": "neondb_owner"}},
        ChangeCatalog,
        _change(CreateDatabase(name="second", owner="neondb_owner")),
    ),
    (
        "apply_config",
        {
            "change": {"kind": "change_database", "name": "second", "new_name": "third", "owner": "app"},
            "before": {"name": "second", "owner_name": "neondb_owner"},
        },
        ChangeCatalog,
        _change(
            AlterDatabase(name="second", new_name="third", owner="app"),
            PreviousDatabase(name="second", owner_name="neondb_owner"),
        ),
    ),
    (
        "apply_config",
        {"change": {"kind": "drop_database", "name": "second"}},
        ChangeCatalog,
        _change(DropDatabase(name="second")),
    ),
    ("delete_timeline", {}, DeleteBranch, DeleteBranchParams()),
    ("delete_timeline", {"with_project": True}, DeleteBranch, DeleteBranchParams(with_project=True)),
    ("apply_storage_config", {}, ApplyHistoryRetention, NoParams()),
    ("timeline_archive", {}, ArchiveBranch, NoParams()),
    ("timeline_unarchive", {}, UnarchiveBranch, NoParams()),
]


def test_every_action_has_a_stored_row() -> None:
    assert {action for _, _, action, _ in STORED} == set(ALL_ACTIONS)


@pytest.mark.parametrize(("action", "stored", "expected", "params"), STORED)
def test_rows_of_the_last_version_are_decoded(action: str, stored: Json, expected: ActionType, params: Params) -> None:
    kind, parameters = decode_kind(action, stored)
    assert ALL_ACTIONS.get(kind) is expected
    assert expected.params_type.decode(parameters) == params


@pytest.mark.parametrize(("action", "stored", "written", "params"), STORED)
def test_rows_are_written_as_the_last_version_wrote_them(
    action: str, stored: Json, written: ActionType, params: Params
) -> None:
    assert encode_kind(written.kind, params.encode()) == (action, stored)


@pytest.mark.parametrize(
    ("stored", "params"),
    [
        ({}, CreateBranchParams()),
        (
            {"source_id": "snap-one", "target_volume_id": "vol-old"},
            CreateBranchParams(source_id=SNAPSHOT, target=HEAD_OF_VOLUME),
        ),
        ({"source_id": "br-main", "unknown": [1]}, CreateBranchParams(source_id=MAIN)),
    ],
)
def test_absent_keys_have_defaults_and_unknown_keys_are_ignored(stored: Json, params: Params) -> None:
    decoded = CreateBranchParams.decode(stored)
    assert decoded == params
    assert type(decoded.source_id) in (type(None), SnapshotId if stored.get("source_id") == "snap-one" else BranchId)


@pytest.mark.parametrize("params_type", [RestoreBranchParams, CreateSnapshotParams, ChangeCatalogParams])
def test_a_missing_key_is_reported(params_type: type[Params]) -> None:
    with pytest.raises(UndecodableParams, match=params_type.__name__):
        params_type.decode({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondVersion(Params):
    """Parameters whose second version renamed a key."""

    VERSION: ClassVar[int] = 2
    size: int

    def to_stored(self) -> dict[str, Any]:
        return {"size": self.size}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls(size=stored["length"] if version == 1 else stored["size"])


def test_later_versions_store_their_number_and_read_earlier_ones() -> None:
    assert SecondVersion(size=3).encode() == {"version": 2, "size": 3}
    assert SecondVersion.decode({"version": 2, "size": 3}) == SecondVersion.decode({"length": 3})
    with pytest.raises(UndecodableParams, match="version 2, and the row has 3"):
        SecondVersion.decode({"version": 3, "size": 3})


def test_a_new_operation_accepts_only_the_parameters_of_its_action() -> None:
    assert NewOperation(StartCompute, ProjectId("p")).params == StartComputeParams()
    with pytest.raises(AssertionError):
        NewOperation(StartCompute, ProjectId("p"), params=DeleteBranchParams())
