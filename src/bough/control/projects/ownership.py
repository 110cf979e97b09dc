"""Change the owner of projects: check the quota of the destination, end what the old owner granted, write the audit.

A project keeps its data, computes, passwords and open connections. Keys, roles and permissions of its old
organization are revoked; the admins of the new one grant access again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bough import clock
from bough.control.consumption import counting
from bough.control.context import Context
from bough.control.projects import quota
from bough.domain import project_transfer
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.project_transfer import ExceededLimit, TransferQuota
from bough.errors import CapacityExceeded
from bough.store.store import Rows

ShortfallFormatter = Callable[[Sequence[ExceededLimit]], dict[str, Any]]  # builds the details of a quota error


async def change_owner(
    context: Context,
    rows: Rows,
    projects: Sequence[Project],
    destination: Organization,
    format_shortfalls: ShortfallFormatter,
) -> None:
    """Move all of the projects or none. The same transaction has checked the caller's rights on both sides."""
    project_ids, now = [project.id for project in projects], clock.now()
    await _check_quota(context, rows, projects, destination, format_shortfalls)
    for project_id in project_ids:
        await counting.count(rows, now, project_id=project_id)
    await rows.projects.set_organization(project_ids, destination.id, now)
    await counting.follow_terms(rows, now, project_ids)
    await context.services.quotas.judge(rows, project_ids, now)
    await rows.api_keys.revoke_in_projects(project_ids, now)
    await rows.grants.revoke_all(project_ids, now)
    await rows.transfer_requests.delete_by_projects(project_ids)
    record = context.audit
    record.add_details(destination_org_id=destination.id)
    for project in projects:
        for org_id in (project.org_id, destination.id):
            details = {**record.details, "source_org_id": project.org_id}
            await record.write(rows, org_id=org_id, project_id=project.id, thing=project.name, details=details)
    record.is_written = True


async def _check_quota(
    context: Context,
    rows: Rows,
    projects: Sequence[Project],
    destination: Organization,
    format_shortfalls: ShortfallFormatter,
) -> None:
    plan = context.organization_plan(destination)
    needed = TransferQuota(
        projects=await quota.count_projects_with(rows, destination, projects),
        branches=await rows.projects.max_branch_count([project.id for project in projects]),
        history_seconds=max(project.history_retention_seconds for project in projects),
    )
    allowed = TransferQuota(projects=plan.projects, branches=plan.branches, history_seconds=plan.history_seconds)
    if shortfalls := list(project_transfer.find_exceeded_limits(required=needed, allowed=allowed)):
        raise CapacityExceeded(
            f"The projects do not fit into the organization, so nothing was moved. {shortfalls[0].message} "
            "Delete something there, or change its plan.",
            code=shortfalls[0].code,
            details=format_shortfalls(shortfalls),
        )


def format_as_limits(shortfalls: Sequence[ExceededLimit]) -> dict[str, Any]:
    """Return the details in the format that clients expect of a transfer."""
    return {
        "limits": [
            {"name": each.name, "expected": str(each.limit), "actual": str(each.required)} for each in shortfalls
        ]
    }


def format_as_reasons(shortfalls: Sequence[ExceededLimit]) -> dict[str, Any]:
    """Return the details in the format that clients expect of an accepted transfer request."""
    return {"reasons": [{"message": each.message, "code": each.code} for each in shortfalls]}
