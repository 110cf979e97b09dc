"""Restores: a branch gets the data of a point in its own history, or of another branch. A reset is a restore from
the parent.

What it has now is preserved as a branch of its own when a name is given for that. That branch is there from the
request on, so that its name is taken, and gets its data with the switch.
"""

from dataclasses import dataclass

from bough import clock
from bough.access import lookup
from bough.control import archiving, inheriting, points, seeding
from bough.control.branch_planning import check_name, check_room, maker_of
from bough.control.desk import Desk
from bough.domain import history, restoring
from bough.domain.branch import Branch, Volume
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.history import Point, Target
from bough.domain.operation import (
    ALSO,
    RESUMES,
    SOURCE,
    VARIANT,
    Operation,
    OperationAction,
    Reach,
    Touch,
    Variant,
)
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.ids import BranchId, VolumeId
from bough.operations.action import Wish
from bough.operations.actions.restore_branch import MAKES
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreWish:
    source_id: BranchId
    point: Point
    preserve_under_name: str | None = None


class Restores:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def restore(self, held: Project, branch_id: BranchId, wish: RestoreWish) -> tuple[Branch, list[Operation]]:
        """One transaction: the branch that preserves what is there now, the volume to come, and the work.

        The branch goes on serving until all is ready to be switched.
        """
        self._desk.check_makes_new()
        end = await points.end_of(self._desk, held, wish.source_id, wish.point)
        touch = Touch(reach=Reach.BESIDE, project_id=held.id, branch_id=branch_id, source_id=wish.source_id)
        async with self._desk.turn(touch) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await lookup.branch(rows, project, branch_id)
            source = await lookup.branch(rows, project, wish.source_id)
            restoring.check_restorable(
                branch,
                to_itself=source.id == branch.id,
                is_head=wish.point.is_head,
                preserves=wish.preserve_under_name is not None,
                has_children=await rows.branches.has_children(branch.id),
            )
            target = await points.resolve(
                self._desk, rows, project, source, wish.point, name=_name_of(wish.point), end=end
            )
            preserved = await self._preserved(rows, project, branch, wish.preserve_under_name)
            restore = await _restore(rows, branch, source, target, preserved)
            served = [each for each in await rows.endpoints.of_branch(branch.id) if _is_up(each)]
            operations = await self._desk.enqueue(
                rows,
                *await _unarchived(rows, branch, source),
                restore,
                *_starts(served),
                behind=await maker_of(rows, source),
            )
            preserved_as = preserved.id if preserved else None
            self._desk.record.about(name=branch.name, source=source.id, preserved_as=preserved_as)
        return branch, operations

    async def _preserved(self, rows: Rows, project: Project, branch: Branch, name: str | None) -> Branch | None:
        """With a volume of passage: what it will have is still the branch's own."""
        if name is None:
            return None
        await check_room(rows, project.id, await self._desk.plan_for(rows, project))
        await check_name(rows, project, name)
        now = clock.now()
        preserved = seeding.new_branch(
            project,
            name,
            now,
            parent_id=branch.parent_id or branch.id,
            annotations={},
            created_by=self._desk.principal.user_id,
        )
        await rows.lineages.add_volume(Volume(id=preserved.volume_id, project_id=project.id, created_at=now))
        await rows.branches.add(preserved)
        await inheriting.inherit(rows, branch, preserved, self._desk.vault if project.store_passwords else None)
        return preserved


async def _restore(rows: Rows, branch: Branch, source: Branch, target: Target, preserved: Branch | None) -> Wish:
    """The work, and the rows of the volume that it makes."""
    volume_id, now = VolumeId.new(), clock.now()
    await rows.lineages.add_volume(Volume(id=volume_id, project_id=branch.project_id, created_at=now))
    await seeding.new_lineage(rows, branch.project_id, volume_id, now)
    parameters = {VARIANT: Variant.RESTORE, SOURCE: source.id, MAKES: volume_id, **history.written(target)}
    if preserved is not None:
        parameters[ALSO] = preserved.id
    return Wish(OperationAction.CREATE_TIMELINE, branch.project_id, branch.id, parameters=parameters)


async def _unarchived(rows: Rows, *used: Branch) -> list[Wish]:
    """They may have ancestors in common."""
    wishes = [wish for branch in used for wish in await archiving.ensure_unarchived(rows, branch)]
    return list({wish.branch_id: wish for wish in wishes}.values())


def _starts(served: list[Endpoint]) -> list[Wish]:
    """The one that writes first: the others follow it."""
    in_order = sorted(served, key=lambda endpoint: endpoint.type is not EndpointType.READ_WRITE)
    return [
        Wish(OperationAction.START_COMPUTE, each.project_id, each.branch_id, each.id, {RESUMES: True})
        for each in in_order
    ]


def _is_up(endpoint: Endpoint) -> bool:
    """Or on its way there."""
    return (endpoint.pending_state or endpoint.state) is EndpointState.ACTIVE and not endpoint.disabled


def _name_of(point: Point) -> str:
    return "source_lsn" if point.lsn is not None else "source_timestamp"
