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

NEW, PASSAGE = VolumeId("vol-new"), VolumeId("vol-passage")
POINT = Origin(lsn="0/500", at=NOON)
INSIDE = BranchContents(
    roles=(
        ObservedRole(name="owner", can_login=True, verifier="v", valid_until=None),
        ObservedRole(name="then", can_login=True, verifier=None, valid_until=None),
    ),
    databases=(ObservedDatabase(name="app", owner="owner"),),
)


async def _made(store: Store, branch: Branch, preserved: Branch | None) -> None:
    """Writes what a restore has written before the switch."""
    async with store.transaction() as rows:
        await rows.lineages.set_history_start(branch.volume_id, NOON, "0/100")
        if preserved is not None:
            await rows.lineages.add_volume(Volume(id=PASSAGE, project_id=branch.project_id, created_at=NOON))
            await rows.branches.add(preserved)
        for each in filter(None, (branch, preserved)):
            await rows.roles.add(_role(each.id, "owner", "sealed"))
            await rows.roles.add(_role(each.id, "now", None))
        await rows.lineages.add_volume(Volume(id=NEW, project_id=branch.project_id, created_at=NOON))
        await rows.lineages.add(
            Lineage(id=LineageId.new(), project_id=branch.project_id, volume_id=NEW, created_at=NOON)
        )


def _role(branch_id: BranchId, name: str, sealed: str | None) -> Role:
    return Role(
        branch_id=branch_id,
        name=name,
        verifier="v",
        sealed_password=sealed,
        is_protected=False,
        created_at=NOON,
        updated_at=NOON,
    )


async def _switched(store: Store, branch: Branch, source: Branch, preserved: Branch | None = None) -> Branch:
    await _made(store, branch, preserved)
    requested = VolumeSwitch(
        branch_id=branch.id,
        source_id=source.id,
        source_volume_id=source.volume_id,
        volume_id=NEW,
        origin=POINT,
        start_lsn="0/600",
        contents=INSIDE,
        previous_end_lsn="0/900",
        preserved_id=preserved.id if preserved else None,
    )
    async with store.transaction() as rows:
        await volume_switch.switch_volume(rows, branch, requested)
    async with store.read() as rows:
        found = await rows.branches.get(branch.project_id, branch.id)
    assert found is not None
    return found


async def _history(rows: Rows, branch_id: BranchId) -> list[tuple[VolumeId, str | None]]:
    """Returns the volumes of the branch's history, and the end of each."""
    return [
        (past.lineage.volume_id, past.branch_lineage.until_lsn) for past in await rows.lineages.list_ranges(branch_id)
    ]


async def test_to_itself_what_it_had_goes_to_the_one_that_preserves_it(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY, logical_size=7, wal_position=0x900)
    child = await add_branch(store, make_branch(project, name="child", parent_id=root.id, is_default=False))
    kept = make_branch(project, name="kept", parent_id=root.id, is_default=False, volume_id=PASSAGE)
    after = await _switched(store, root, root, kept)
    async with store.read() as rows:
        preserved = await rows.branches.get(project.id, kept.id)
        moved = await rows.branches.get(project.id, child.id)
        volumes = await rows.lineages.list_volume_ids(project.id)
        retired = await rows.lineages.list_retired_volumes()
        own, others = await _history(rows, root.id), await _history(rows, kept.id)
        roles = {role.name: role for role in await rows.roles.list_in_branch(root.id)}
        old_roles = {role.name: role for role in await rows.roles.list_in_branch(kept.id)}
        databases = [each.name for each in await rows.databases.list_in_branch(root.id)]
    assert preserved is not None
    assert moved is not None
    assert (after.volume_id, preserved.volume_id, after.wal_position) == (NEW, root.volume_id, 0x600)
    assert (preserved.state, preserved.logical_size, preserved.wal_position) == (BranchState.READY, 7, 0x900)
    assert (preserved.parent_id, preserved.parent_lsn, preserved.parent_timestamp) == (root.id, "0/500", NOON)
    assert moved.parent_id == kept.id
    assert (after.parent_id, after.last_reset_at, after.is_default) == (None, None, True)
    assert own == [(root.volume_id, "0/500"), (NEW, None)]
    assert others == [(root.volume_id, None)]
    assert PASSAGE not in volumes
    assert retired == []
    assert {name: role.sealed_password for name, role in roles.items()} == {"owner": "sealed", "then": None}
    assert {name: role.sealed_password for name, role in old_roles.items()} == {"owner": "sealed", "now": None}
    assert databases == ["app"]


async def test_a_reset_retires_what_the_branch_had_and_lets_it_live_as_long_again(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY, logical_size=7)
    child = make_branch(project, name="child", parent_id=root.id, is_default=False, state=BranchState.READY)
    child = await add_branch(store, replace(child, expires_at=NOON, ttl_seconds=600))
    after = await _switched(store, child, root)
    async with store.read() as rows:
        retired = [volume.id for volume in await rows.lineages.list_retired_volumes()]
        own = await _history(rows, child.id)
    assert retired == [child.volume_id]
    assert own == [(child.volume_id, "0/900"), (NEW, None)]
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
    kept = make_branch(project, name="kept", parent_id=root.id, is_default=False, volume_id=PASSAGE)
    after = await _switched(store, child, other, kept)
    async with store.read() as rows:
        preserved = await rows.branches.get(project.id, kept.id)
        begun = await rows.lineages.get_by_volume(NEW)
    assert preserved is not None
    assert (after.parent_id, after.parent_lsn, after.last_reset_at) == (root.id, "0/200", None)
    assert (preserved.parent_id, preserved.parent_lsn) == (root.id, "0/200")
    assert begun is not None
    assert (begun.began_lsn, begun.began_at is not None) == ("0/600", True)
