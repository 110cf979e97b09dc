"""Instant databases for the claim page, created as the API does but without computes."""

from dataclasses import dataclass, replace
from typing import Any, cast

from bough.control.audit import AuditRecord
from bough.control.gateway.wakes import Wakes
from bough.control.instant import claims, creation
from bough.control.instant.creation import NewInstantDatabase
from bough.control.instant.databases import InstantDatabaseDetails, get_instant_database
from bough.control.instant.prepared import create_unclaimed_context
from bough.control.services import Services
from bough.domain.audit import Actor, ActorKind
from bough.domain.instant_database import InstantDatabase
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.user import User
from bough.ids import InstantId, OperationId, ProjectId
from support.accounts import finish_operations
from support.pages_app import PagesApp, SignedInUser


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

    async def get_shown(self) -> InstantDatabaseDetails:
        """Returns the database as the API shows it."""
        return await get_instant_database(await create_unclaimed_context(self.services, _make_audit_record()), self.id)

    async def get_row(self) -> InstantDatabase:
        async with self.services.store.read() as rows:
            found = await rows.instant_databases.get_by_project(self.project_id)
        assert found is not None
        return found

    async def update_row(self, **changes: Any) -> None:
        found = await self.get_row()
        async with self.services.store.transaction() as rows:
            await rows.instant_databases.save(replace(found, **changes))

    async def get_project(self) -> Project:
        async with self.services.store.read() as rows:
            found = await rows.projects.get(self.project_id)
        assert found is not None
        return found


async def create_instant_database(parts: Services) -> ClaimableDatabase:
    wish = NewInstantDatabase(ref="tests")
    made = await creation.create_instant_database(
        replace(parts, wakes=cast(Wakes, _AlwaysRunning())), _make_audit_record(), wish
    )
    await finish_operations(parts, made.database.project_id)
    assert made.connection_string
    return ClaimableDatabase(
        services=parts, id=made.id, project_id=made.database.project_id, uri=made.connection_string
    )


def _make_audit_record() -> AuditRecord:
    """Uses a new client address, so that rate limits do not apply."""
    nobody = Actor(kind=ActorKind.ANONYMOUS, name="")
    return AuditRecord(nobody, "test", address=str(OperationId.new()), request_id="test")


async def begin_claim(front: PagesApp, made: ClaimableDatabase, person: SignedInUser) -> None:
    """Starts the claim, which leads to the choice of an organization."""
    await person.client.get(made.claim_path)
    answer = await person.client.post(f"{made.claim_path}/start")
    assert (answer.status_code, answer.headers["location"]) == (303, made.claim_path)
    await person.client.get(made.claim_path)


async def claim_database(front: PagesApp, made: ClaimableDatabase, user: User) -> Organization:
    """Claims the database for the user's personal organization."""
    await claims.begin_claim(await front.create_context(user), made.id)
    own = await get_personal_organization(front, user)
    await claims.complete_claim(await front.create_context(user), made.id, own.id)
    return own


async def get_personal_organization(front: PagesApp, user: User) -> Organization:
    async with front.services.store.read() as rows:
        found = await rows.organizations.get_personal(user.id)
    assert found is not None
    return found
