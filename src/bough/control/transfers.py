"""Projects that change their owner: given by an admin of both sides, or offered and taken over by who has the offer."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from bough import clock
from bough.access import fresh
from bough.control.desk import Desk
from bough.control.handing_over import as_limits, as_reasons, hand_over
from bough.domain import transfer
from bough.domain.api_key import KeyKind
from bough.domain.operation import Reach, Touch
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import OrgRight, Right
from bough.domain.transfer import TransferRequest
from bough.errors import Denied, Invalid, NotFound, Taken
from bough.ids import OrganizationId, ProjectId, TransferRequestId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class Offer:
    """A transfer request, and its id, which is given once and never kept."""

    id: TransferRequestId
    request: TransferRequest


class Transfers:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def give(self, source: Organization, org_id: OrganizationId, project_ids: Collection[ProjectId]) -> None:
        """All of them, or none."""
        self._desk.principal.check_acts_in_person()
        self._desk.principal.organization(org_id, to=OrgRight.CREATE_PROJECTS)
        if org_id == source.id:
            raise Invalid("destination_org_id is the organization that has the projects. Name another.")
        wanted = set(project_ids)
        async with self._desk.store.read() as rows:
            await _living(rows, source.id, wanted)
        async with self._desk.turn(*map(_touch, wanted)) as rows:
            caller = await fresh.caller(rows, self._desk.principal, source.id, org_id)
            caller.organization(source.id, to=OrgRight.MANAGE)
            destination = caller.organization(org_id, to=OrgRight.CREATE_PROJECTS)
            projects = await _living(rows, source.id, wanted)
            await hand_over(self._desk, rows, projects, destination, as_limits)

    async def offer(self, held: Project, seconds: int) -> Offer:
        transfer.check_seconds(seconds)
        secret, now = TransferRequestId.new(), clock.now()
        request = TransferRequest(
            digest=self._desk.keys.digest(secret),
            project_id=held.id,
            created_by=self._desk.principal.user_id,
            created_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        async with self._desk.transaction() as rows:
            await fresh.project(rows, self._desk.principal, held.id, to=Right.TRANSFER)
            await rows.transfer_requests.add(request)
            self._desk.record.about(expires_at=request.expires_at.isoformat())
        return Offer(secret, request)

    async def accept(self, project_id: ProjectId, secret: str, org_id: OrganizationId | None) -> None:
        """By whoever knows the offer's id, once."""
        principal = self._desk.principal
        if principal.kind is KeyKind.PROJECT:
            raise Denied("A key of a project may not take over another. Use a personal API key.")
        destination = principal.organization(org_id or principal.home().id, to=OrgRight.CREATE_PROJECTS)
        async with self._desk.store.read() as rows:
            await self._offered(rows, project_id, secret)
        async with self._desk.turn(_touch(project_id)) as rows:
            project = await self._offered(rows, project_id, secret)
            caller = await fresh.caller(rows, principal, project.org_id, destination.id)
            destination = caller.organization(destination.id, to=OrgRight.CREATE_PROJECTS)
            if project.org_id == destination.id:
                raise Taken("The organization has this project already. Name another with org_id.")
            await hand_over(self._desk, rows, [project], destination, as_reasons)

    async def _offered(self, rows: Rows, project_id: ProjectId, secret: str) -> Project:
        """The project, while the offer stands; the same words for all that may be wrong with it."""
        request = await rows.transfer_requests.get(self._desk.keys.digest(secret), clock.now())
        found = await rows.projects.get(project_id)
        if request is None or request.project_id != project_id or found is None or found.deleted_at is not None:
            raise NotFound.thing("transfer request")
        return found


def _touch(project_id: ProjectId) -> Touch:
    return Touch(reach=Reach.PROJECT, project_id=project_id)


async def _living(rows: Rows, org_id: OrganizationId, wanted: Collection[ProjectId]) -> list[Project]:
    """These projects, all of them living and the organization's."""
    found = [project for project in await rows.projects.named(wanted) if project.org_id == org_id]
    if len(found) < len(wanted):
        raise NotFound.thing("project")
    return found
