"""Transfers of projects between organizations: directly, or with a transfer request that is accepted."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response
from pydantic import Field

from bough import ids
from bough.api.dependencies import ContextDep, IdempotentRoute, PrincipalDep, TransferableProject
from bough.api.errors import GeneralError
from bough.api.schemas import Body, Count, IdText, View, to_response
from bough.control.projects.transfers import (
    CreatedTransferRequest,
    accept_transfer_request,
    create_transfer_request,
    transfer_projects,
)
from bough.domain.organization import Organization
from bough.domain.project_transfer import DEFAULT_TTL_SECONDS, MAX_PROJECTS
from bough.domain.rights import OrgRight
from bough.ids import OrganizationId, ProjectId

router = APIRouter(route_class=IdempotentRoute)

COLLECTION_PATH = "/projects/{project_id}/transfer_requests"


class ProjectsTransfer(Body):
    destination_org_id: IdText
    project_ids: Annotated[list[IdText], Field(min_length=1, max_length=MAX_PROJECTS)]

    @property
    def destination(self) -> OrganizationId:
        return OrganizationId(self.destination_org_id)

    @property
    def projects(self) -> list[ProjectId]:
        return [ProjectId(each) for each in self.project_ids]


class ProjectsTransferred(View):
    """An empty object, as clients of this API expect."""


class UnsatisfiedLimit(View):
    name: str
    expected: str
    actual: str


class LimitsUnsatisfied(GeneralError):
    limits: list[UnsatisfiedLimit]


class TransferRequestCreate(Body):
    ttl_seconds: Count = DEFAULT_TTL_SECONDS


class TransferRequestView(View):
    id: str
    project_id: str
    created_at: datetime
    expires_at: datetime

    @classmethod
    def of(cls, created: CreatedTransferRequest) -> "TransferRequestView":
        request = created.request
        return cls(
            id=created.id, project_id=request.project_id, created_at=request.created_at, expires_at=request.expires_at
        )


class TransferRequestAccept(Body):
    org_id: IdText | None = None


class PlanReason(View):
    message: str
    code: str


class PlanUnsatisfied(GeneralError):
    reasons: list[PlanReason]


async def get_source_organization(
    source_org_id: Annotated[str, Path(pattern=ids.PATTERN)], caller: PrincipalDep
) -> Organization:
    caller.require_personal_key()
    return caller.organization(OrganizationId(source_org_id), right=OrgRight.MANAGE)


async def get_personal_organization(caller: PrincipalDep) -> Organization:
    caller.require_personal_key()
    return caller.default_organization()


def _plan_limit_responses(model: type[GeneralError]) -> dict[int | str, dict[str, Any]]:
    return {406: {"model": model, "description": "The plan of the new organization does not allow it"}}


@router.post(
    "/organizations/{source_org_id}/projects/transfer",
    response_model=ProjectsTransferred,
    responses=_plan_limit_responses(LimitsUnsatisfied),
    tags=["Organizations"],
)
async def transfer_projects_from_org_to_org(
    source: Annotated[Organization, Depends(get_source_organization)], body: ProjectsTransfer, context: ContextDep
) -> Response:
    """Transfer projects to another organization, all of them or none. Connections stay open. Project-scoped keys and
    roles and permissions on the projects are removed.
    """
    await transfer_projects(context, source, body.destination, body.projects)
    return to_response(ProjectsTransferred())


@router.post(
    "/users/me/projects/transfer",
    response_model=ProjectsTransferred,
    responses=_plan_limit_responses(LimitsUnsatisfied),
    tags=["Users"],
    deprecated=True,
)
async def transfer_projects_from_user_to_org(
    source: Annotated[Organization, Depends(get_personal_organization)], body: ProjectsTransfer, context: ContextDep
) -> Response:
    """Transfer projects from the caller's personal organization to another organization, all of them or none."""
    await transfer_projects(context, source, body.destination, body.projects)
    return to_response(ProjectsTransferred())


@router.post(COLLECTION_PATH, response_model=TransferRequestView, status_code=201, tags=["Project"])
async def create_project_transfer_request(
    project: TransferableProject, context: ContextDep, body: TransferRequestCreate | None = None
) -> Response:
    """Create a request to transfer the project. Anyone who knows the `id` of the response can accept it, so keep it
    secret. It cannot be shown again.
    """
    requested = body or TransferRequestCreate()
    return to_response(
        TransferRequestView.of(await create_transfer_request(context, project, requested.ttl_seconds)), 201
    )


@router.put(
    f"{COLLECTION_PATH}/{{request_id}}",
    response_class=Response,
    status_code=204,
    responses=_plan_limit_responses(PlanUnsatisfied),
    tags=["Project"],
)
async def accept_project_transfer_request(
    project_id: Annotated[str, Path(pattern=ids.PATTERN)],
    request_id: Annotated[str, Path(pattern=ids.PATTERN)],
    context: ContextDep,
    body: TransferRequestAccept | None = None,
) -> Response:
    """Accept a transfer request. The project moves to `org_id`, by default the caller's personal organization."""
    requested = body.org_id if body else None
    org_id = None if requested is None else OrganizationId(requested)
    await accept_transfer_request(context, ProjectId(project_id), request_id, org_id)
    return Response(status_code=204)
