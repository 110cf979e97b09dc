"""Branches from a point in their parent's history: what is stored, and the errors."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.project_client import READ_ONLY, ProjectClient, create_project_client, operation_actions
from bough import clock
from bough.domain import history
from bough.domain.branch import BranchLineage, BranchState, Volume
from bough.domain.history import Point, RecoveryTarget
from bough.ids import BranchId, LineageId, OperationId, VolumeId
from support.api_client import Caller, Json

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


async def with_history(tree: ProjectClient, branch_id: str | None = None, *, age: timedelta = HOUR) -> datetime:
    """Makes the branch restorable since then; its WAL starts at 0/100."""
    began = clock.now() - age
    branch = await tree.get_branch_row(branch_id or tree.main_branch_id)
    async with tree.caller.api_app.services.store.transaction() as rows:
        await rows.lineages.set_history_start(branch.volume_id, began, "0/100")
    return began


async def recovery_target(tree: ProjectClient, created: Json) -> RecoveryTarget | None:
    """Returns the starting point in the parameters of the operation that creates a branch."""
    async with tree.caller.api_app.services.store.read() as rows:
        operation = await rows.operations.get(OperationId(created["operations"][0]["id"]))
    assert operation is not None
    return history.decode_target(operation.parameters)


async def _refused(tree: ProjectClient, **fields: Any) -> str:
    return await tree.expect_error(400, "POST", tree.branches_path, {"branch": fields})


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_a_moment_is_resolved_and_shown_as_it_was_asked_for(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    volume = (await tree.get_branch_row(tree.main_branch_id)).volume_id
    at = (clock.now() - 30 * MINUTE).replace(microsecond=123456)
    created = await tree.begin_branch("then", parent_timestamp=at.isoformat(), endpoints=(READ_ONLY,))
    assert operation_actions(created) == ["create_branch", "start_compute"]
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=volume, point=Point(at=at))
    assert _moment(created["branch"]["parent_timestamp"]) == at
    assert created["branch"].get("parent_lsn") is None
    assert [role["name"] for role in created["roles"]] == ["neondb_owner"]


async def test_a_position_is_resolved_and_shown_as_postgres_writes_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    volume = (await tree.get_branch_row(tree.main_branch_id)).volume_id
    created = await tree.begin_branch("then", parent_lsn="0/00ab1234")
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=volume, point=Point(lsn="0/AB1234"))
    assert created["branch"]["parent_lsn"] == "0/AB1234"


async def test_without_a_point_it_begins_with_what_its_parent_has_when_it_is_made(caller: Caller) -> None:
    tree = await create_project_client(caller)
    assert await recovery_target(tree, await tree.begin_branch("now")) is None


async def test_a_moment_that_a_restore_took_away_is_the_end_of_what_came_before(caller: Caller) -> None:
    """Also for a volume that no branch uses any more."""
    tree = await create_project_client(caller)
    began = await with_history(tree)
    main = await tree.get_branch_row(tree.main_branch_id)
    old = VolumeId.new()
    async with caller.api_app.services.store.transaction() as rows:
        (past,) = await rows.lineages.list_ranges(main.id)
        lineage = replace(past.lineage, id=LineageId.new(), volume_id=old, began_at=began)
        await rows.lineages.add_volume(
            Volume(id=old, project_id=main.project_id, created_at=began, retired_at=clock.now())
        )
        await rows.lineages.add(lineage)
        before = BranchLineage(
            branch_id=main.id, position=0, lineage_id=lineage.id, until_lsn="0/500", until_at=began + 10 * MINUTE
        )
        now = replace(past.branch_lineage, from_at=began + 30 * MINUTE, from_lsn="0/500")
        await rows.lineages.replace_branch_lineages(main.id, [before, now])
    for minutes, target in [
        (5, RecoveryTarget(volume_id=old, point=Point(at=began + 5 * MINUTE))),
        (20, RecoveryTarget(volume_id=old, point=Point(lsn="0/500"))),
        (40, RecoveryTarget(volume_id=main.volume_id, point=Point(at=began + 40 * MINUTE))),
    ]:
        at = began + minutes * MINUTE
        created = await tree.begin_branch(parent_timestamp=at.isoformat())
        assert await recovery_target(tree, created) == target
        assert _moment(created["branch"]["parent_timestamp"]) == at


async def test_a_point_outside_the_history_is_refused_with_the_window(caller: Caller) -> None:
    tree = await create_project_client(caller)
    began = (await with_history(tree)).astimezone(UTC)
    since = f"from {began.isoformat(timespec='seconds').replace('+00:00', 'Z')} to "
    early = await _refused(tree, parent_timestamp=(began - MINUTE).isoformat())
    assert "parent_timestamp (" in early
    assert f"is before the history that is kept: use a time {since}" in early
    late = await _refused(tree, parent_timestamp=(clock.now() + HOUR).isoformat())
    assert f"is in the future: use a time {since}" in late
    assert "0/99) is not in the branch's history: use a position from 0/100 to " in await _refused(
        tree, parent_lsn="0/99"
    )


async def test_what_is_older_than_the_project_keeps_is_refused(caller: Caller) -> None:
    tree = await create_project_client(caller, history_retention_seconds=600)
    await with_history(tree)
    assert "is before the history that is kept" in await _refused(
        tree, parent_timestamp=(clock.now() - 11 * MINUTE).isoformat()
    )
    await tree.begin_branch(parent_timestamp=(clock.now() - 9 * MINUTE).isoformat())


async def test_who_keeps_no_history_is_told_how_to_keep_some(caller: Caller) -> None:
    tree = await create_project_client(caller, history_retention_seconds=0)
    await with_history(tree)
    sentence = await _refused(tree, parent_timestamp=clock.now().isoformat())
    assert "keeps no history. Set its history_retention_seconds first." in sentence


async def test_a_child_cannot_be_gone_back_to_before_it_was_made(caller: Caller) -> None:
    tree = await create_project_client(caller)
    began = await with_history(tree)
    child = (await tree.create_branch("child"))["branch"]["id"]
    assert "no history to restore yet. Try again in a minute." in await _refused(
        tree, parent_id=child, parent_timestamp=clock.now().isoformat()
    )
    await with_history(tree, child, age=10 * MINUTE)
    sentence = await _refused(tree, parent_id=child, parent_timestamp=(began + MINUTE).isoformat())
    assert "is before the history that is kept" in sentence


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"parent_lsn": ""}, "write a WAL position such as 0/1A2B3C4D"),
        ({"parent_lsn": "yesterday"}, "parent_lsn is 'yesterday': write a WAL position such as 0/1A2B3C4D"),
        ({"parent_lsn": "0/123456789"}, "write a WAL position"),
        ({"parent_lsn": "x" * 5000}, "write a WAL position"),
        ({"parent_lsn": 7}, "branch.parent_lsn"),
        ({"parent_lsn": "0/\N{ARABIC-INDIC DIGIT ONE}"}, "write a WAL position"),
        ({"parent_timestamp": "yesterday"}, "branch.parent_timestamp"),
        ({"parent_timestamp": "2026-01-01T00:00:00"}, "branch.parent_timestamp"),
        ({"parent_timestamp": 4_000_000_000}, "branch.parent_timestamp"),
        ({"parent_timestamp": "0001-01-01T00:00:00+14:00"}, "is before the history that is kept"),
        ({"parent_timestamp": "9999-12-31T23:59:59-14:00"}, "is in the future"),
        (
            {"parent_lsn": "0/200", "parent_timestamp": "2026-01-01T00:00:00Z"},
            "Use parent_lsn or parent_timestamp, not both.",
        ),
    ],
)
async def test_a_bad_point_is_refused_with_a_reason(caller: Caller, fields: Json, sentence: str) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    assert sentence in await _refused(tree, **fields)


async def test_a_protected_parents_child_has_other_passwords_at_a_point_too(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    await tree.request_and_finish("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"protected": True}})
    created = await tree.begin_branch(parent_timestamp=(clock.now() - MINUTE).isoformat())
    (own,) = (await tree.get_role_rows(created["branch"]["id"])).values()
    (parents,) = (await tree.get_role_rows(tree.main_branch_id)).values()
    assert own.verifier != parents.verifier


async def test_a_parent_that_is_archived_comes_back_first(caller: Caller) -> None:
    tree = await create_project_client(caller)
    child = (await tree.create_branch("child"))["branch"]["id"]
    async with caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(replace(await tree.get_branch_row(child), state=BranchState.ARCHIVED))
    created = await tree.begin_branch("grandchild", parent_id=child)
    assert operation_actions(created) == ["timeline_unarchive", "create_branch"]
    assert BranchId(created["operations"][0]["branch_id"]) == child
