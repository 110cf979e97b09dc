"""Endpoints: start, suspend, restart. Waking one because somebody connects is in `wakes`."""

from bough import clock
from bough.access import lookup
from bough.control.desk import Desk
from bough.domain.endpoint import Endpoint, EndpointState, wishing
from bough.domain.operation import Operation, OperationAction
from bough.domain.project import Project
from bough.errors import PreconditionFailed
from bough.ids import EndpointId
from bough.operations.action import Wish


class Endpoints:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def start(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """One that runs is left alone: its operation has nothing to do."""
        return await self._change(project, endpoint_id, OperationAction.START_COMPUTE)

    async def suspend(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """Whoever is connected is cut off. One that sleeps goes on sleeping."""
        return await self._change(project, endpoint_id, OperationAction.SUSPEND_COMPUTE)

    async def restart(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """Whoever is connected is cut off; it comes back with fresh processes."""
        return await self._change(project, endpoint_id, OperationAction.SUSPEND_COMPUTE, OperationAction.START_COMPUTE)

    async def _change(
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


_TOWARDS = {
    OperationAction.START_COMPUTE: EndpointState.ACTIVE,
    OperationAction.SUSPEND_COMPUTE: EndpointState.IDLE,
}
