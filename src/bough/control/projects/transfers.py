"""Transfer projects to another organization, directly or by a transfer request that the recipient accepts."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from bough import clock
from bough.access import locked_lookup
from bough.control.context import Context
from bough.control.projects.ownership import change_owner, format_as_limits, format_as_reasons
from bough.domain import project_transfer
from bough.domain.api_key import KeyKind
from bough.domain.locks import LockScope
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.project_transfer import TransferRequest
from bough.domain.rights import OrgRight, Right
from bough.errors import Conflict, Denied, Invalid, NotFound
from bough.ids import OrganizationId, ProjectId, TransferRequestId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class CreatedTransferRequest:
    """A transfer request and its id, which is returned once and never stored."""

    id: TransferRequestId
    request: TransferRequest


async def transfer_projects(
    context: Context, source: Organization, org_id: OrganizationId, project_ids: Collection[ProjectId]
) -> None:
    """Transfer all of the projects or none."""
    context.principal.require_personal_key()
    context.principal.organization(org_id, right=OrgRight.CREATE_PROJECTS)
    if org_id == source.id:
        raise Invalid("destination_org_id already owns the projects. Use the id of another organization.")
    requested = set(project_ids)
    async with context.services.store.read() as rows:
        await _get_projects(rows, source.id, requested)
    async with context.locked_transaction(*map(LockScope.project, requested)) as rows:
        caller = await locked_lookup.caller(rows, context.principal, source.id, org_id)
        caller.organization(source.id, right=OrgRight.MANAGE)
        destination = caller.organization(org_id, right=OrgRight.CREATE_PROJECTS)
        projects = await _get_projects(rows, source.id, requested)
        await change_owner(context, rows, projects, destination, format_as_limits)


async def create_transfer_request(context: Context, project: Project, seconds: int) -> CreatedTransferRequest:
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
    return CreatedTransferRequest(secret, request)


async def accept_transfer_request(
    context: Context, project_id: ProjectId, secret: str, org_id: OrganizationId | None
) -> None:
    """Accept a transfer request. Any caller who knows its id may do so, once."""
    principal = context.principal
    if principal.kind is KeyKind.PROJECT:
        raise Denied("A project key may not accept a transfer of another project. Use a personal API key.")
    destination = principal.organization(org_id or principal.default_organization().id, right=OrgRight.CREATE_PROJECTS)
    async with context.services.store.read() as rows:
        await _get_requested_project(context, rows, project_id, secret)
    async with context.locked_transaction(LockScope.project(project_id)) as rows:
        project = await _get_requested_project(context, rows, project_id, secret)
        caller = await locked_lookup.caller(rows, principal, project.org_id, destination.id)
        destination = caller.organization(destination.id, right=OrgRight.CREATE_PROJECTS)
        if project.org_id == destination.id:
            raise Conflict("The organization already owns this project. Use another organization as org_id.")
        await change_owner(context, rows, [project], destination, format_as_reasons)


async def _get_requested_project(context: Context, rows: Rows, project_id: ProjectId, secret: str) -> Project:
    """Return the project of a valid transfer request. Every failure gives the same error."""
    request = await rows.transfer_requests.get(context.services.keys.digest(secret), clock.now())
    found = await rows.projects.get(project_id)
    if request is None or request.project_id != project_id or found is None or found.deleted_at is not None:
        raise NotFound.resource("transfer request")
    return found


async def _get_projects(rows: Rows, org_id: OrganizationId, requested: Collection[ProjectId]) -> list[Project]:
    """Return the projects; raises NotFound if one is deleted or belongs to another organization."""
    found = [project for project in await rows.projects.list_by_ids(requested) if project.org_id == org_id]
    if len(found) < len(requested):
        raise NotFound.resource("project")
    return found
