"""The context of one request: the platform's services, the caller, and the audit record to write."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bough.access import lookup
from bough.access.principal import Principal
from bough.config import Plan
from bough.control.audit import AuditRecord
from bough.control.gateway import notify
from bough.control.idempotency import IdempotencyKey
from bough.control.services import Services
from bough.domain.locks import LockScope
from bough.domain.operation import Operation
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.errors import Unavailable
from bough.ids import EndpointId, OperationId
from bough.operations.action import NewOperation
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    services: Services
    principal: Principal
    audit: AuditRecord
    idempotency_key: IdempotencyKey | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        async with self.services.store.transaction() as rows:
            await self._reserve_key(rows)
            yield rows
            await self._write_audit(rows)
        self.audit.is_written = True

    @asynccontextmanager
    async def locked_transaction(self, *locks: LockScope) -> AsyncIterator[Rows]:
        """A transaction that begins once conflicting operations have ended."""
        async with self.services.queue.locked_transaction(*locks) as rows:
            await self._reserve_key(rows)
            yield rows
            await self._write_audit(rows)
        self.audit.is_written = True

    async def enqueue(
        self, rows: Rows, *new_operations: NewOperation, after: OperationId | None = None
    ) -> list[Operation]:
        """Enqueue the operations in order; each runs after the one before it."""
        return await self.services.queue.enqueue(rows, new_operations, self.audit.request_id, predecessor_id=after)

    async def invalidate_endpoints(self, *endpoints: EndpointId) -> None:
        """Drop these endpoints from the gateways' caches; the gateways on this machine have done so on return."""
        for endpoint in endpoints:
            self.services.activity.invalidate(endpoint)
        if endpoints:
            await notify.invalidate_endpoints(self.services.settings.gateway_folder, endpoints)

    def check_can_create(self) -> None:
        """Raise Unavailable when the engine would refuse to create anything."""
        reason = self.services.engine.capabilities().creation_blocked_reason
        if reason is not None:
            raise Unavailable(reason)

    def organization_plan(self, organization: Organization) -> Plan:
        return self.services.settings.plan(organization.plan)

    async def load_project_plan(self, rows: Rows, project: Project) -> Plan:
        """The plan of the organization that owns the project, whoever the caller is."""
        return self.organization_plan(await lookup.organization_of(rows, self.principal, project))

    async def _write_audit(self, rows: Rows) -> None:
        if not self.audit.is_written:
            await self.audit.write(rows)

    async def _reserve_key(self, rows: Rows) -> None:
        if self.idempotency_key is not None:
            await self.idempotency_key.reserve(rows)
