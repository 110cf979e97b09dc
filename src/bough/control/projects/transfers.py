"""Projects that change their owner: given by an admin of both sides, or offered and taken over by who has the offer."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from bough import clock
from bough.access import locked_lookup
from bough.control.context import Context
from bough.control.projects.ownership import change_owner, format_as_limits, format_as_reasons
from bough.domain import project_transfer
from bough.domain.api_key import KeyKind
from bough.domain.locks import LockLevel, LockScope
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.project_transfer import TransferRequest
from bough.domain.rights import OrgRight, Right
from bough.errors import Conflict, Denied, Invalid, NotFound
from bough.ids import OrganizationId, ProjectId, TransferRequestId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class NewTransferRequest:
    """A transfer request, and its id, which is given once and never kept."""

    id: TransferRequestId
    request: TransferRequest


async def transfer_projects(
    context: Context, source: Organization, org_id: OrganizationId, project_ids: Collection[ProjectId]
) -> None:
    """All of them, or none."""
    context.principal.require_personal_key()
    context.principal.organization(org_id, right=OrgRight.CREATE_PROJECTS)
    if org_id == source.id:
        raise Invalid("destination_org_id is the organization that has the projects. Name another.")
    wanted = set(project_ids)
    async with context.services.store.read() as rows:
        await _existing_projects(rows, source.id, wanted)
    async with context.locked_transaction(*map(_project_lock, wanted)) as rows:
        caller = await locked_lookup.caller(rows, context.principal, source.id, org_id)
        caller.organization(source.id, right=OrgRight.MANAGE)
        destination = caller.organization(org_id, right=OrgRight.CREATE_PROJECTS)
        projects = await _existing_projects(rows, source.id, wanted)
        await change_owner(context, rows, projects, destination, format_as_limits)


async def create_transfer_request(context: Context, project: Project, seconds: int) -> NewTransferRequest:
    project_transfer.check_ttl(seconds)
    secret, now = TransferRequestId.new(), clock.now()
    request = TransferRequest(
        digest=context.services.keys.digest(secret),
        project_id=project.id,
        created_by=context.principal.user_id,
        created_at=now,
        expires_at=now + timedelta(seconds=seconds),
    )
    async with context.transaction() as rows:
        await locked_lookup.project(rows, context.principal, project.id, right=Right.TRANSFER)
        await rows.transfer_requests.add(request)
        context.audit.add_details(expires_at=request.expires_at.isoformat())
    return NewTransferRequest(secret, request)


async def accept_transfer_request(
    context: Context, project_id: ProjectId, secret: str, org_id: OrganizationId | None
) -> None:
    """By whoever knows the offer's id, once."""
    principal = context.principal
    if principal.kind is KeyKind.PROJECT:
        raise Denied("A key of a project may not take over another. Use a personal API key.")
    destination = principal.organization(org_id or principal.default_organization().id, right=OrgRight.CREATE_PROJECTS)
    async with context.services.store.read() as rows:
        await _requested_project(context, rows, project_id, secret)
    async with context.locked_transaction(_project_lock(project_id)) as rows:
        project = await _requested_project(context, rows, project_id, secret)
        caller = await locked_lookup.caller(rows, principal, project.org_id, destination.id)
        destination = caller.organization(destination.id, right=OrgRight.CREATE_PROJECTS)
        if project.org_id == destination.id:
            raise Conflict("The organization has this project already. Name another with org_id.")
        await change_owner(context, rows, [project], destination, format_as_reasons)


async def _requested_project(context: Context, rows: Rows, project_id: ProjectId, secret: str) -> Project:
    """The project, while the offer stands; the same words for all that may be wrong with it."""
    request = await rows.transfer_requests.get(context.services.keys.digest(secret), clock.now())
    found = await rows.projects.get(project_id)
    if request is None or request.project_id != project_id or found is None or found.deleted_at is not None:
        raise NotFound.resource("transfer request")
    return found


def _project_lock(project_id: ProjectId) -> LockScope:
    return LockScope(level=LockLevel.PROJECT, project_id=project_id)


async def _existing_projects(rows: Rows, org_id: OrganizationId, wanted: Collection[ProjectId]) -> list[Project]:
    """These projects, all of them living and the organization's."""
    found = [project for project in await rows.projects.list_by_ids(wanted) if project.org_id == org_id]
    if len(found) < len(wanted):
        raise NotFound.resource("project")
    return found
