"""What a decision is made with: one caller, the store, the queue and the rules in force."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bough.access import lookup
from bough.access.keys import Keys
from bough.access.principal import Principal
from bough.access.vault import Vault
from bough.config import Plan, Settings
from bough.control import telling
from bough.control.activity import Activity
from bough.control.names import Names
from bough.control.once import Once
from bough.control.recording import Record
from bough.domain.endpoint import Hosts
from bough.domain.operation import Operation, Touch
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.errors import Unavailable
from bough.ids import EndpointId, OperationId, VolumeId
from bough.operations.action import Wish
from bough.operations.queue import Queue
from bough.store.store import Rows, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    principal: Principal
    record: Record
    store: Store
    queue: Queue
    vault: Vault
    keys: Keys
    settings: Settings
    hosts: Hosts
    names: Names
    activity: Activity
    installs: Mapping[int, str]  # Postgres major version → the install a new project gets
    written_until: Callable[[VolumeId], Awaitable[str | None]]  # where a volume's WAL ends now, if anybody knows
    refuses_new: str | None = None  # why nothing new is made now
    once: Once | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        async with self.store.transaction() as rows:
            await self._reserve(rows)
            yield rows
            await self._keep_record(rows)
        self.record.is_kept = True

    @asynccontextmanager
    async def turn(self, *touches: Touch) -> AsyncIterator[Rows]:
        """A transaction that waited for conflicting work to end."""
        async with self.queue.turn(*touches) as rows:
            await self._reserve(rows)
            yield rows
            await self._keep_record(rows)
        self.record.is_kept = True

    async def enqueue(self, rows: Rows, *wishes: Wish, behind: OperationId | None = None) -> list[Operation]:
        """The wishes in order, each behind the one before it."""
        return await self.queue.enqueue(rows, wishes, self.record.request_id, behind=behind)

    async def changed(self, *endpoints: EndpointId) -> None:
        """What gateways remember of these is not true any more; those of this machine know it when this is over."""
        for endpoint in endpoints:
            self.activity.changed(endpoint)
        if endpoints:
            await telling.forget(self.settings.gateway_folder, endpoints)

    def check_makes_new(self) -> None:
        """Before a wish is written that the engine would refuse."""
        if self.refuses_new is not None:
            raise Unavailable(self.refuses_new)

    def plan_of(self, organization: Organization) -> Plan:
        return self.settings.plan(organization.plan)

    async def plan_for(self, rows: Rows, project: Project) -> Plan:
        """Of the organization that has the project, whoever the caller is."""
        return self.plan_of(await lookup.organization_of(rows, self.principal, project))

    async def _keep_record(self, rows: Rows) -> None:
        if not self.record.is_kept:
            await self.record.write(rows)

    async def _reserve(self, rows: Rows) -> None:
        if self.once is not None:
            await self.once.reserve(rows)
