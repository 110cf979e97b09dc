"""Schedules of snapshots: what a branch has, and what it shall have."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field, StrictInt

from bough.access import lookup
from bough.api.given import DeskGiven, OnceRoute, PartsGiven, ReadableProject, WritableProject
from bough.api.shapes import Body, BranchName, Count, View, show
from bough.control.snapshot_schedules import SnapshotSchedules
from bough.domain.snapshot_schedule import Frequency, Item
from bough.errors import Invalid
from bough.ids import BranchId

router = APIRouter(tags=["Snapshot"], route_class=OnceRoute)


class ScheduleItemView(View):
    frequency: Frequency
    hour: int | None
    day: int | None
    retention_seconds: int | None

    @classmethod
    def of(cls, item: Item) -> "ScheduleItemView":
        return cls(frequency=item.frequency, hour=item.hour, day=item.day, retention_seconds=item.retention_seconds)


class ScheduleView(View):
    schedule: list[ScheduleItemView]


class ScheduleItemBody(Body):
    frequency: Frequency
    hour: Annotated[StrictInt, Field(ge=0, le=23)] | None = None
    day: Annotated[StrictInt, Field(ge=1, le=31)] | None = None
    month: Annotated[StrictInt, Field(ge=1, le=12)] | None = None
    retention_seconds: Count | None = None

    def item(self) -> Item:
        if self.month is not None:
            raise Invalid("schedule: month is not used: the rarest snapshots are monthly ones. Leave it out.")
        return Item(frequency=self.frequency, hour=self.hour, day=self.day, retention_seconds=self.retention_seconds)


class ScheduleBody(Body):
    schedule: Annotated[list[ScheduleItemBody], Field(max_length=100)]


class Nothing(View):
    """There is nothing to tell."""


@router.get("/projects/{project_id}/branches/{branch_id}/backup_schedule", response_model=ScheduleView)
async def get_snapshot_schedule(project: ReadableProject, branch_id: BranchName, given: PartsGiven) -> Response:
    """When snapshots of a branch are taken by themselves; an empty list: never. Hours are in UTC."""
    async with given.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        found = await rows.snapshot_schedules.get(branch.id)
    return show(ScheduleView(schedule=[ScheduleItemView.of(item) for item in found.items] if found else []))


@router.put("/projects/{project_id}/branches/{branch_id}/backup_schedule", response_model=Nothing)
async def set_snapshot_schedule(
    project: WritableProject, branch_id: BranchName, body: ScheduleBody, desk: DeskGiven
) -> Response:
    """Say when snapshots of a root branch are taken, and how long each is kept; an empty list ends it."""
    items = [item.item() for item in body.schedule]
    await SnapshotSchedules(desk).set(project, BranchId(branch_id), items)
    return show(Nothing())
