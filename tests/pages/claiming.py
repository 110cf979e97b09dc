"""Instant databases for the pages to claim: made as the API makes them, but nothing is started."""

from dataclasses import dataclass, replace
from typing import Any, cast

from api.accounts import end_work
from bough.control.claims import Claims
from bough.control.instant_creation import InstantCreation, NewInstantDatabase
from bough.control.instant_databases import InstantDatabases, ShownInstantDatabase
from bough.control.parts import Parts
from bough.control.prepared_databases import nobodys_desk
from bough.control.recording import Record
from bough.control.wakes import Wakes
from bough.domain.audit import Actor, ActorKind
from bough.domain.instant_database import InstantDatabase
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.user import User
from bough.ids import InstantId, OperationId, ProjectId
from pages.front import Account, Front


class _Awake:
    """Every compute runs, whatever is asked."""

    async def wake(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """One instant database, as its holder knows it."""

    parts: Parts
    id: InstantId
    project_id: ProjectId
    uri: str

    @property
    def path(self) -> str:
        return f"/claim/{self.id}"

    @property
    def password(self) -> str:
        return self.uri.partition("@")[0].rpartition(":")[2]

    async def seen(self) -> ShownInstantDatabase:
        """As the API shows it."""
        return await InstantDatabases(await nobodys_desk(self.parts, _record())).get(self.id)

    async def row(self) -> InstantDatabase:
        async with self.parts.store.read() as rows:
            found = await rows.instant_databases.of_project(self.project_id)
        assert found is not None
        return found

    async def change(self, **changes: Any) -> None:
        found = await self.row()
        async with self.parts.store.transaction() as rows:
            await rows.instant_databases.save(replace(found, **changes))

    async def project(self) -> Project:
        async with self.parts.store.read() as rows:
            found = await rows.projects.get(self.project_id)
        assert found is not None
        return found


async def instant(parts: Parts) -> Instant:
    wish = NewInstantDatabase(ref="tests")
    made = await InstantCreation(replace(parts, wakes=cast(Wakes, _Awake())), _record()).create(wish)
    await end_work(parts, made.database.project_id)
    assert made.connection_string
    return Instant(parts=parts, id=made.id, project_id=made.database.project_id, uri=made.connection_string)


def _record() -> Record:
    """Of a caller with an address of their own, so that none is kept waiting for another."""
    nobody = Actor(kind=ActorKind.NOBODY, name="")
    return Record(nobody, "test", address=str(OperationId.new()), request_id="test")


async def begun(front: Front, made: Instant, person: Account) -> None:
    """The person has pressed the first button, and sees the choice."""
    await person.browser.get(made.path)
    answer = await person.browser.post(f"{made.path}/start")
    assert (answer.status_code, answer.headers["location"]) == (303, made.path)
    await person.browser.get(made.path)


async def claimed(front: Front, made: Instant, user: User) -> Organization:
    """By somebody, into their own organization."""
    await Claims(await front.desk(user)).begin(made.id)
    own = await personal(front, user)
    await Claims(await front.desk(user)).complete(made.id, own.id)
    return own


async def personal(front: Front, user: User) -> Organization:
    async with front.parts.store.read() as rows:
        found = await rows.organizations.personal(user.id)
    assert found is not None
    return found
