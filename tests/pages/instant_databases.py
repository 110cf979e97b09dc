"""Instant databases for the claim page, created as the API does but without computes."""

from dataclasses import dataclass, replace
from typing import Any, cast

from bough.control.audit import AuditRecord
from bough.control.gateway.wakes import Wakes
from bough.control.instant import claims, creation
from bough.control.instant.creation import RequestedInstantDatabase
from bough.control.instant.databases import InstantDatabaseDetails, get_instant_database
from bough.control.instant.unclaimed import create_unclaimed_context
from bough.control.services import Services
from bough.domain.audit import Actor, ActorKind
from bough.domain.instant_database import InstantDatabase
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.user import User
from bough.ids import InstantId, OperationId, ProjectId
from support.accounts import finish_operations
from support.pages_app import PagesApp, SignedInClient


class _AlwaysRunning:
    """Pretends that every compute runs."""

    async def wake(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimableDatabase:
    """An instant database and what its creator knows."""

    services: Services
    id: InstantId
    project_id: ProjectId
    uri: str

    @property
    def claim_path(self) -> str:
        return f"/claim/{self.id}"

    @property
    def password(self) -> str:
        return self.uri.partition("@")[0].rpartition(":")[2]

    async def get_details(self) -> InstantDatabaseDetails:
        """Returns the database as the API shows it."""
        return await get_instant_database(await create_unclaimed_context(self.services, _make_audit_record()), self.id)

    async def get_row(self) -> InstantDatabase:
        async with self.services.store.read() as rows:
            row = await rows.instant_databases.get_by_project(self.project_id)
        assert row is not None
        return row

    async def update_row(self, **changes: Any) -> None:
        row = await self.get_row()
        async with self.services.store.transaction() as rows:
            await rows.instant_databases.save(replace(row, **changes))

    async def get_project(self) -> Project:
        async with self.services.store.read() as rows:
            row = await rows.projects.get(self.project_id)
        assert row is not None
        return row


async def create_instant_database(services: Services) -> ClaimableDatabase:
    requested = RequestedInstantDatabase(ref="tests")
    created = await creation.create_instant_database(
        replace(services, wakes=cast(Wakes, _AlwaysRunning())), _make_audit_record(), requested
    )
    await finish_operations(services, created.database.project_id)
    assert created.connection_string
    return ClaimableDatabase(
        services=services, id=created.id, project_id=created.database.project_id, uri=created.connection_string
    )


def _make_audit_record() -> AuditRecord:
    """Uses a new client address, so that rate limits do not apply."""
    anonymous = Actor(kind=ActorKind.ANONYMOUS, name="")
    return AuditRecord(anonymous, "test", address=str(OperationId.new()), request_id="test")


async def begin_claim(app: PagesApp, created: ClaimableDatabase, person: SignedInClient) -> None:
    """Starts the claim, which leads to the choice of an organization."""
    await person.client.get(created.claim_path)
    response = await person.client.post(f"{created.claim_path}/start")
    assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
    await person.client.get(created.claim_path)


async def claim_database(app: PagesApp, created: ClaimableDatabase, user: User) -> Organization:
    """Claims the database for the user's personal organization."""
    await claims.begin_claim(await app.create_context(user), created.id)
    personal = await get_personal_organization(app, user)
    await claims.complete_claim(await app.create_context(user), created.id, personal.id)
    return personal


async def get_personal_organization(app: PagesApp, user: User) -> Organization:
    async with app.services.store.read() as rows:
        row = await rows.organizations.get_personal(user.id)
    assert row is not None
    return row
