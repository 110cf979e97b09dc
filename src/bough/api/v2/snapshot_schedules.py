"""Snapshot schedules of branches: get and set."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field, StrictInt

from bough.access import lookup
from bough.api.dependencies import ContextDep, IdempotentRoute, ReadableProject, ServicesDep, WritableProject
from bough.api.schemas import Body, BranchIdPath, Count, View, to_response
from bough.control.restores import schedules
from bough.domain.snapshot_schedule import Frequency, ScheduleItem
from bough.errors import Invalid
from bough.ids import BranchId

router = APIRouter(tags=["Snapshot"], route_class=IdempotentRoute)


class ScheduleItemView(View):
    frequency: Frequency
    hour: int | None
    day: int | None
    retention_seconds: int | None

    @classmethod
    def of(cls, item: ScheduleItem) -> "ScheduleItemView":
        return cls(frequency=item.frequency, hour=item.hour, day=item.day, retention_seconds=item.retention_seconds)


class ScheduleView(View):
    schedule: list[ScheduleItemView]


class ScheduleItemBody(Body):
    frequency: Frequency
    hour: Annotated[StrictInt, Field(ge=0, le=23)] | None = None
    day: Annotated[StrictInt, Field(ge=1, le=31)] | None = None
    month: Annotated[StrictInt, Field(ge=1, le=12)] | None = None
    retention_seconds: Count | None = None

    def to_item(self) -> ScheduleItem:
        if self.month is not None:
            raise Invalid("schedule: month is not used, because snapshots are taken at least monthly. Leave it out.")
        return ScheduleItem(
            frequency=self.frequency, hour=self.hour, day=self.day, retention_seconds=self.retention_seconds
        )


class ScheduleBody(Body):
    schedule: Annotated[list[ScheduleItemBody], Field(max_length=100)]


class Nothing(View):
    """An empty object."""


@router.get("/projects/{project_id}/branches/{branch_id}/backup_schedule", response_model=ScheduleView)
async def get_snapshot_schedule(project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep) -> Response:
    """Get the schedule of automatic snapshots of a branch. The list is empty if there is none. Hours are in UTC."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        schedule = await rows.snapshot_schedules.get(branch.id)
    return to_response(
        ScheduleView(schedule=[ScheduleItemView.of(item) for item in schedule.items] if schedule else [])
    )


@router.put("/projects/{project_id}/branches/{branch_id}/backup_schedule", response_model=Nothing)
async def set_snapshot_schedule(
    project: WritableProject, branch_id: BranchIdPath, body: ScheduleBody, context: ContextDep
) -> Response:
    """Set when automatic snapshots of a root branch are taken and how long they are kept. An empty list removes the
    schedule.
    """
    items = [item.to_item() for item in body.schedule]
    await schedules.set_snapshot_schedule(context, project, BranchId(branch_id), items)
    return to_response(Nothing())
