"""Endpoints: start, suspend, restart, change. Waking one because somebody connects is in `wakes`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bough import clock
from bough.access import lookup
from bough.control.desk import Desk
from bough.domain import pooler
from bough.domain.endpoint import Endpoint, EndpointState, wishing
from bough.domain.operation import Operation, OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.errors import PreconditionFailed
from bough.ids import EndpointId
from bough.operations.action import Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChange:
    """None where the caller said nothing."""

    pooler_enabled: bool | None = None
    pooler_mode: str | None = None
    pgbouncer_settings: Mapping[str, str] | None = None  # all there shall be


class Endpoints:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def start(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """One that runs is left alone: its operation has nothing to do."""
        return await self._work(project, endpoint_id, OperationAction.START_COMPUTE)

    async def suspend(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """Whoever is connected is cut off. One that sleeps goes on sleeping."""
        return await self._work(project, endpoint_id, OperationAction.SUSPEND_COMPUTE)

    async def restart(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """Whoever is connected is cut off; it comes back with fresh processes."""
        return await self._work(project, endpoint_id, OperationAction.SUSPEND_COMPUTE, OperationAction.START_COMPUTE)

    async def change(self, project: Project, endpoint_id: EndpointId, change: EndpointChange) -> Endpoint:
        """How it pools is the gateway's matter alone: gateways hear of it, and its compute has nothing to do."""
        _check(change)
        async with self._desk.store.read() as rows:
            held = await lookup.endpoint(rows, project, endpoint_id)
        touch = Touch(reach=Reach.ENDPOINT, project_id=held.project_id, branch_id=held.branch_id, endpoint_id=held.id)
        async with self._desk.turn(touch) as rows:
            changed = _changed(await lookup.endpoint(rows, project, endpoint_id), change)
            await rows.endpoints.save(changed)
        self._desk.activity.changed(endpoint_id)
        return changed

    async def _work(
        self, project: Project, endpoint_id: EndpointId, *actions: OperationAction
    ) -> tuple[Endpoint, list[Operation]]:
        async with self._desk.store.read() as rows:
            held = await lookup.endpoint(rows, project, endpoint_id)
        wishes = [Wish(action, held.project_id, held.branch_id, held.id) for action in actions]
        async with self._desk.turn(wishes[0].touch) as rows:
            endpoint = await lookup.endpoint(rows, project, endpoint_id)
            if endpoint.disabled and OperationAction.START_COMPUTE in actions:
                raise PreconditionFailed(f"The endpoint {endpoint_id} is disabled. Enable it first.")
            changed = wishing(endpoint, _TOWARDS[actions[0]], clock.now())
            await rows.endpoints.save(changed)
            operations = await self._desk.enqueue(rows, *wishes)
        return changed, operations


def _check(change: EndpointChange) -> None:
    if change.pooler_mode is not None:
        pooler.check_mode("pooler_mode", change.pooler_mode)
    pooler.check(change.pgbouncer_settings or {})


def _changed(before: Endpoint, change: EndpointChange) -> Endpoint:
    settings = before.settings
    if change.pgbouncer_settings is not None:
        settings = {**settings, pooler.SETTINGS: dict(change.pgbouncer_settings)}
    enabled = before.pooler_enabled if change.pooler_enabled is None else change.pooler_enabled
    return replace(before, settings=settings, pooler_enabled=enabled, updated_at=clock.now())


_TOWARDS = {
    OperationAction.START_COMPUTE: EndpointState.ACTIVE,
    OperationAction.SUSPEND_COMPUTE: EndpointState.IDLE,
}
