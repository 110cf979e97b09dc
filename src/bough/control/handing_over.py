"""The part that all ways to another owner share: room in its plan, what ends with the old owner, and the audit.

A project goes with its data, computes and passwords; connections notice nothing. What people and keys had on it
by its old organization ends: the admins of the new one decide anew.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bough import clock
from bough.control import plan_room
from bough.control.desk import Desk
from bough.domain import transfer
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.transfer import Room, Shortfall
from bough.errors import CapacityExceeded
from bough.store.store import Rows

Told = Callable[[Sequence[Shortfall]], dict[str, Any]]  # how a refusal for want of room is put


async def hand_over(desk: Desk, rows: Rows, projects: Sequence[Project], destination: Organization, told: Told) -> None:
    """All of them, or none. The caller's rights on both sides were checked in the same transaction."""
    project_ids, now = [project.id for project in projects], clock.now()
    await _check_room(desk, rows, projects, destination, told)
    await rows.projects.set_owner(project_ids, destination.id, now)
    await rows.api_keys.revoke_all_on(project_ids, now)
    await rows.grants.drop_all_on(project_ids, now)
    await rows.transfer_requests.drop_all_of(project_ids)
    record = desk.record
    record.about(destination_org_id=destination.id)
    for project in projects:
        for org_id in (project.org_id, destination.id):
            details = {**record.details, "source_org_id": project.org_id}
            await record.write(rows, org_id=org_id, project_id=project.id, thing=project.name, details=details)
    record.is_kept = True


async def _check_room(
    desk: Desk, rows: Rows, projects: Sequence[Project], destination: Organization, told: Told
) -> None:
    plan = desk.plan_of(destination)
    needed = Room(
        projects=await plan_room.with_projects(rows, destination, projects),
        branches=await rows.projects.most_branches([project.id for project in projects]),
        history_seconds=max(project.history_retention_seconds for project in projects),
    )
    allowed = Room(projects=plan.projects, branches=plan.branches, history_seconds=plan.history_seconds)
    if short := list(transfer.shortfalls(needed=needed, allowed=allowed)):
        raise CapacityExceeded(
            f"The projects do not fit into the organization, so nothing was moved. {short[0].sentence} "
            "Make room there, or change its plan.",
            code=short[0].code,
            details=told(short),
        )


def as_limits(short: Sequence[Shortfall]) -> dict[str, Any]:
    """As clients expect it who gave projects away."""
    return {"limits": [{"name": each.name, "expected": str(each.limit), "actual": str(each.wanted)} for each in short]}


def as_reasons(short: Sequence[Shortfall]) -> dict[str, Any]:
    """As clients expect it who took a project over."""
    return {"reasons": [{"message": each.sentence, "code": each.code} for each in short]}
