"""Replacing the volume of a branch: the rows before and after, in both back ends."""

from dataclasses import replace

from bough.domain.branch import Branch, BranchState, Lineage, Volume
from bough.domain.role import Role
from bough.engine.port import BranchContents, ObservedDatabase, ObservedRole, Origin
from bough.ids import BranchId, LineageId, VolumeId
from bough.operations import volume_switch
from bough.operations.volume_switch import VolumeSwitch
from bough.store.store import Rows, Store
from support.stores import NOON, add_branch, add_project, make_branch, make_project

NEW_VOLUME, TEMPORARY_VOLUME = VolumeId("vol-new"), VolumeId("vol-passage")
POINT = Origin(lsn="0/500", at=NOON)
CONTENTS = BranchContents(
    roles=(
        ObservedRole(name="owner", can_login=True, verifier="v", valid_until=None),
        ObservedRole(name="then", can_login=True, verifier=None, valid_until=None),
    ),
    databases=(ObservedDatabase(name="app", owner="owner"),),
)


async def _add_restored_rows(store: Store, branch: Branch, preserving: Branch | None) -> None:
    """Adds the rows that a restore writes before the switch."""
    async with store.transaction() as rows:
        await rows.lineages.set_history_start(branch.volume_id, NOON, "0/100")
        if preserving is not None:
            await rows.lineages.add_volume(Volume(id=TEMPORARY_VOLUME, project_id=branch.project_id, created_at=NOON))
            await rows.branches.add(preserving)
        for each in filter(None, (branch, preserving)):
            await rows.roles.add(_make_role(each.id, "owner", "sealed"))
            await rows.roles.add(_make_role(each.id, "now", None))
        await rows.lineages.add_volume(Volume(id=NEW_VOLUME, project_id=branch.project_id, created_at=NOON))
        await rows.lineages.add(
            Lineage(id=LineageId.new(), project_id=branch.project_id, volume_id=NEW_VOLUME, created_at=NOON)
        )


def _make_role(branch_id: BranchId, name: str, sealed: str | None) -> Role:
    return Role(
        branch_id=branch_id,
        name=name,
        verifier="v",
        sealed_password=sealed,
        is_protected=False,
        created_at=NOON,
        updated_at=NOON,
    )


async def _switch_volume(store: Store, branch: Branch, source: Branch, preserving: Branch | None = None) -> Branch:
    await _add_restored_rows(store, branch, preserving)
    switch = VolumeSwitch(
        branch_id=branch.id,
        source_id=source.id,
        source_volume_id=source.volume_id,
        volume_id=NEW_VOLUME,
        origin=POINT,
        start_lsn="0/600",
        contents=CONTENTS,
        previous_end_lsn="0/900",
        preserving_branch_id=preserving.id if preserving else None,
    )
    async with store.transaction() as rows:
        await volume_switch.switch_volume(rows, branch, switch)
    async with store.read() as rows:
        switched = await rows.branches.get(branch.project_id, branch.id)
    assert switched is not None
    return switched


async def _list_history(rows: Rows, branch_id: BranchId) -> list[tuple[VolumeId, str | None]]:
    """Returns the volumes of the branch's history, and the end of each."""
    return [
        (lineage_range.lineage.volume_id, lineage_range.branch_lineage.until_lsn)
        for lineage_range in await rows.lineages.list_ranges(branch_id)
    ]


async def test_to_itself_what_it_had_goes_to_the_one_that_preserves_it(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY, logical_size=7, wal_position=0x900)
    child = await add_branch(store, make_branch(project, name="child", parent_id=root.id, is_default=False))
    kept = make_branch(project, name="kept", parent_id=root.id, is_default=False, volume_id=TEMPORARY_VOLUME)
    after = await _switch_volume(store, root, root, kept)
    async with store.read() as rows:
        preserving = await rows.branches.get(project.id, kept.id)
        moved = await rows.branches.get(project.id, child.id)
        volumes = await rows.lineages.list_volume_ids(project.id)
        retired = await rows.lineages.list_retired_volumes()
        own, others = await _list_history(rows, root.id), await _list_history(rows, kept.id)
        roles = {role.name: role for role in await rows.roles.list_in_branch(root.id)}
        old_roles = {role.name: role for role in await rows.roles.list_in_branch(kept.id)}
        databases = [each.name for each in await rows.databases.list_in_branch(root.id)]
    assert preserving is not None
    assert moved is not None
    assert (after.volume_id, preserving.volume_id, after.wal_position) == (NEW_VOLUME, root.volume_id, 0x600)
    assert (preserving.state, preserving.logical_size, preserving.wal_position) == (BranchState.READY, 7, 0x900)
    assert (preserving.parent_id, preserving.parent_lsn, preserving.parent_timestamp) == (root.id, "0/500", NOON)
    assert moved.parent_id == kept.id
    assert (after.parent_id, after.last_reset_at, after.is_default) == (None, None, True)
    assert own == [(root.volume_id, "0/500"), (NEW_VOLUME, None)]
    assert others == [(root.volume_id, None)]
    assert TEMPORARY_VOLUME not in volumes
    assert retired == []
    assert {name: role.sealed_password for name, role in roles.items()} == {"owner": "sealed", "then": None}
    assert {name: role.sealed_password for name, role in old_roles.items()} == {"owner": "sealed", "now": None}
    assert databases == ["app"]


async def test_a_reset_retires_what_the_branch_had_and_lets_it_live_as_long_again(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY, logical_size=7)
    child = make_branch(project, name="child", parent_id=root.id, is_default=False, state=BranchState.READY)
    child = await add_branch(store, replace(child, expires_at=NOON, ttl_seconds=600))
    after = await _switch_volume(store, child, root)
    async with store.read() as rows:
        retired = [volume.id for volume in await rows.lineages.list_retired_volumes()]
        own = await _list_history(rows, child.id)
    assert retired == [child.volume_id]
    assert own == [(child.volume_id, "0/900"), (NEW_VOLUME, None)]
    assert (after.parent_lsn, after.parent_timestamp, after.logical_size) == ("0/500", NOON, 7)
    assert after.last_reset_at is not None
    assert after.expires_at is not None
    assert (after.expires_at - after.last_reset_at).total_seconds() == 600


async def test_from_a_branch_that_is_not_its_parent_it_keeps_its_place(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY, parent_lsn=None)
    child = make_branch(project, name="child", parent_id=root.id, is_default=False, parent_lsn="0/200")
    child = await add_branch(store, child)
    other = await add_branch(store, make_branch(project, name="other", parent_id=root.id, is_default=False))
    kept = make_branch(project, name="kept", parent_id=root.id, is_default=False, volume_id=TEMPORARY_VOLUME)
    after = await _switch_volume(store, child, other, kept)
    async with store.read() as rows:
        preserving = await rows.branches.get(project.id, kept.id)
        new_lineage = await rows.lineages.get_by_volume(NEW_VOLUME)
    assert preserving is not None
    assert (after.parent_id, after.parent_lsn, after.last_reset_at) == (root.id, "0/200", None)
    assert (preserving.parent_id, preserving.parent_lsn) == (root.id, "0/200")
    assert new_lineage is not None
    assert (new_lineage.began_lsn, new_lineage.began_at is not None) == ("0/600", True)
