"""Restarts the computes of active endpoints after a crash or a reboot, and stops computes that no row wants.

Observes the machine before it reads the rows, so that running operations are always seen.
"""

from typing import Protocol

from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import EndpointState
from bough.engine.port import ComputeEngine, EngineInspection
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from bough.operations.queue import OperationQueue
from bough.store.store import Store


class _ReconciliationEngine(ComputeEngine, EngineInspection, Protocol):
    """The part of the engine that this module uses."""


class ReconcileComputes:
    interval = 2.0

    def __init__(
        self, store: Store, engine: _ReconciliationEngine, queue: OperationQueue, activity: EndpointActivity
    ) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity

    async def run(self) -> str:
        running = (await self._engine.observe()).running_endpoints
        async with self._store.read(slow=True) as rows:
            # In this order, so that an operation that ends between the two queries is still seen.
            busy = await rows.operations.list_busy_endpoint_ids()
            active = await rows.endpoints.list_active_ids()
        crashed = active - running - busy
        strays = running - active - busy
        for endpoint_id in sorted(crashed):
            await self._restart(endpoint_id)
        for endpoint_id in strays:
            await self._stop_if_unwanted(endpoint_id)
        if not crashed and not strays:
            return ""
        return f"starting {len(crashed)} missing computes, stopped {len(strays)} unwanted ones"

    async def _restart(self, endpoint_id: EndpointId) -> None:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None:
            return
        operation = NewOperation.for_endpoint(StartCompute, endpoint)
        try:
            async with self._queue.locked_transaction(operation.lock) as rows:
                await self._queue.enqueue(rows, [operation], request_id="keep-computes")
            self._activity.mark_unread([endpoint.id])  # changes made with SQL before the crash may not be read yet
        except Busy:
            return  # another operation is running; the next run tries again

    async def _stop_if_unwanted(self, endpoint_id: EndpointId) -> None:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get(endpoint_id)
            operations = await rows.operations.list_open(endpoint.project_id) if endpoint else []
            live = await rows.endpoints.get_live(endpoint_id)
        if live is not None and live.state is EndpointState.ACTIVE:
            return
        if not any(self._queue.lock_of(operation).endpoint_id == endpoint_id for operation in operations):
            await self._engine.ensure_suspended(endpoint_id)
