"""What a decision is made with: one caller, the store, the queue and the rules in force."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bough.access import lookup
from bough.access.keys import Keys
from bough.access.principal import Principal
from bough.access.vault import Vault
from bough.config import Plan, Settings
from bough.control.audit import AuditRecord
from bough.control.gateway import notify
from bough.control.gateway.activity import EndpointActivity
from bough.control.idempotency import IdempotencyKey
from bough.control.platform.hostnames import Hostnames
from bough.domain.endpoint import EndpointHosts
from bough.domain.operation import LockScope, Operation
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.errors import Unavailable
from bough.ids import EndpointId, OperationId, VolumeId
from bough.operations.action import NewOperation
from bough.operations.queue import OperationQueue
from bough.store.store import Rows, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    principal: Principal
    audit: AuditRecord
    store: Store
    queue: OperationQueue
    vault: Vault
    keys: Keys
    settings: Settings
    hosts: EndpointHosts
    hostnames: Hostnames
    activity: EndpointActivity
    installs: Mapping[int, str]  # Postgres major version → the install a new project gets
    read_wal_end: Callable[[VolumeId], Awaitable[str | None]]  # where a volume's WAL ends now, if anybody knows
    creation_blocked_reason: str | None = None  # why nothing new is made now
    idempotency_key: IdempotencyKey | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        async with self.store.transaction() as rows:
            await self._reserve_key(rows)
            yield rows
            await self._write_audit(rows)
        self.audit.is_written = True

    @asynccontextmanager
    async def locked_transaction(self, *locks: LockScope) -> AsyncIterator[Rows]:
        """A transaction that waited for conflicting work to end."""
        async with self.queue.locked_transaction(*locks) as rows:
            await self._reserve_key(rows)
            yield rows
            await self._write_audit(rows)
        self.audit.is_written = True

    async def enqueue(
        self, rows: Rows, *new_operations: NewOperation, after: OperationId | None = None
    ) -> list[Operation]:
        """The wishes in order, each behind the one before it."""
        return await self.queue.enqueue(rows, new_operations, self.audit.request_id, predecessor_id=after)

    async def invalidate_endpoints(self, *endpoints: EndpointId) -> None:
        """What gateways remember of these is not true any more; those of this machine know it when this is over."""
        for endpoint in endpoints:
            self.activity.invalidate(endpoint)
        if endpoints:
            await notify.invalidate_endpoints(self.settings.gateway_folder, endpoints)

    def check_can_create(self) -> None:
        """Before a wish is written that the engine would refuse."""
        if self.creation_blocked_reason is not None:
            raise Unavailable(self.creation_blocked_reason)

    def organization_plan(self, organization: Organization) -> Plan:
        return self.settings.plan(organization.plan)

    async def project_plan(self, rows: Rows, project: Project) -> Plan:
        """Of the organization that has the project, whoever the caller is."""
        return self.organization_plan(await lookup.organization_of(rows, self.principal, project))

    async def _write_audit(self, rows: Rows) -> None:
        if not self.audit.is_written:
            await self.audit.write(rows)

    async def _reserve_key(self, rows: Rows) -> None:
        if self.idempotency_key is not None:
            await self.idempotency_key.reserve(rows)
