"""Projects that change their owner: many at once between organizations, or one that is offered and taken over."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response
from pydantic import Field

from bough import ids
from bough.api.errors import GeneralError
from bough.api.given import DeskGiven, OnceRoute, PrincipalGiven, TransferableProject
from bough.api.shapes import Body, Count, IdText, View, show
from bough.control.transfers import Offer, Transfers
from bough.domain.organization import Organization
from bough.domain.rights import OrgRight
from bough.domain.transfer import MOST_PROJECTS, USUAL_SECONDS
from bough.ids import OrganizationId, ProjectId

router = APIRouter(route_class=OnceRoute)

REQUESTS = "/projects/{project_id}/transfer_requests"


class ProjectsTransfer(Body):
    destination_org_id: IdText
    project_ids: Annotated[list[IdText], Field(min_length=1, max_length=MOST_PROJECTS)]

    @property
    def destination(self) -> OrganizationId:
        return OrganizationId(self.destination_org_id)

    @property
    def projects(self) -> list[ProjectId]:
        return [ProjectId(each) for each in self.project_ids]


class ProjectsTransferred(View):
    """An empty object: clients of this API expect one here."""


class UnsatisfiedLimit(View):
    name: str
    expected: str
    actual: str


class LimitsUnsatisfied(GeneralError):
    limits: list[UnsatisfiedLimit]


class TransferRequestCreate(Body):
    ttl_seconds: Count = USUAL_SECONDS


class TransferRequestView(View):
    id: str
    project_id: str
    created_at: datetime
    expires_at: datetime

    @classmethod
    def of(cls, offer: Offer) -> "TransferRequestView":
        request = offer.request
        return cls(
            id=offer.id, project_id=request.project_id, created_at=request.created_at, expires_at=request.expires_at
        )


class TransferRequestAccept(Body):
    org_id: IdText | None = None


class PlanReason(View):
    message: str
    code: str


class PlanUnsatisfied(GeneralError):
    reasons: list[PlanReason]


async def source_organization(
    source_org_id: Annotated[str, Path(pattern=ids.PATTERN)], caller: PrincipalGiven
) -> Organization:
    caller.check_acts_in_person()
    return caller.organization(OrganizationId(source_org_id), to=OrgRight.MANAGE)


async def own_organization(caller: PrincipalGiven) -> Organization:
    caller.check_acts_in_person()
    return caller.home()


def _no_room(model: type[GeneralError]) -> dict[int | str, dict[str, Any]]:
    return {406: {"model": model, "description": "The plan of the new organization has no room"}}


@router.post(
    "/organizations/{source_org_id}/projects/transfer",
    response_model=ProjectsTransferred,
    responses=_no_room(LimitsUnsatisfied),
    tags=["Organizations"],
)
async def transfer_projects_from_org_to_org(
    source: Annotated[Organization, Depends(source_organization)], body: ProjectsTransfer, desk: DeskGiven
) -> Response:
    """Give projects to another organization, all of them or none. Connections stay; keys for one of the projects,
    and roles and permissions on them, end.
    """
    await Transfers(desk).give(source, body.destination, body.projects)
    return show(ProjectsTransferred())


@router.post(
    "/users/me/projects/transfer",
    response_model=ProjectsTransferred,
    responses=_no_room(LimitsUnsatisfied),
    tags=["Users"],
    deprecated=True,
)
async def transfer_projects_from_user_to_org(
    source: Annotated[Organization, Depends(own_organization)], body: ProjectsTransfer, desk: DeskGiven
) -> Response:
    """The same, out of the caller's personal organization."""
    await Transfers(desk).give(source, body.destination, body.projects)
    return show(ProjectsTransferred())


@router.post(REQUESTS, response_model=TransferRequestView, status_code=201, tags=["Project"])
async def create_project_transfer_request(
    project: TransferableProject, desk: DeskGiven, body: TransferRequestCreate | None = None
) -> Response:
    """Offer the project to whoever is told the `id` of the answer: keep it secret, it cannot be shown again."""
    asked = body or TransferRequestCreate()
    return show(TransferRequestView.of(await Transfers(desk).offer(project, asked.ttl_seconds)), 201)


@router.put(
    f"{REQUESTS}/{{request_id}}",
    response_class=Response,
    status_code=204,
    responses=_no_room(PlanUnsatisfied),
    tags=["Project"],
)
async def accept_project_transfer_request(
    project_id: Annotated[str, Path(pattern=ids.PATTERN)],
    request_id: Annotated[str, Path(pattern=ids.PATTERN)],
    desk: DeskGiven,
    body: TransferRequestAccept | None = None,
) -> Response:
    """Take over a project that was offered, into the organization named or the caller's own."""
    asked = body.org_id if body else None
    org_id = None if asked is None else OrganizationId(asked)
    await Transfers(desk).accept(ProjectId(project_id), request_id, org_id)
    return Response(status_code=204)
