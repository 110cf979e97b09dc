"""Active endpoints have a running compute: one that crashed, or that a reboot took, is started again.

A compute that no row wants is stopped. Both look at the machine first and at the rows after it,
so work that is under way is always seen.
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


class _Engine(ComputeEngine, EngineInspection, Protocol):
    """The part of the engine that this module uses."""


class ReconcileComputes:
    interval = 2.0

    def __init__(self, store: Store, engine: _Engine, queue: OperationQueue, activity: EndpointActivity) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity

    async def run(self) -> str:
        running = (await self._engine.observe()).running_endpoints
        async with self._store.read(slow=True) as rows:
            # In this order: work that ends between the two is still seen as work.
            busy = await rows.operations.list_busy_endpoint_ids()
            active = await rows.endpoints.list_active_ids()
        crashed = active - running - busy
        strays = running - active - busy
        for gone in sorted(crashed):
            await self._restart(gone)
        for stray in strays:
            await self._stop_if_unwanted(stray)
        if not crashed and not strays:
            return ""
        return f"starting {len(crashed)} computes that were gone, stopped {len(strays)} that nobody wants"

    async def _restart(self, endpoint_id: EndpointId) -> None:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None:
            return
        wish = NewOperation(StartCompute, endpoint.project_id, endpoint.branch_id, endpoint.id)
        try:
            async with self._queue.locked_transaction(wish.lock) as rows:
                await self._queue.enqueue(rows, [wish], request_id="keep-computes")
            self._activity.mark_unread([endpoint.id])  # what was changed with SQL before the crash may not be read yet
        except Busy:
            return  # someone works on it already; the next beat looks again

    async def _stop_if_unwanted(self, endpoint_id: EndpointId) -> None:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get(endpoint_id)
            work = await rows.operations.list_open(endpoint.project_id) if endpoint else []
            living = await rows.endpoints.get_live(endpoint_id)
        if living is not None and living.state is EndpointState.ACTIVE:
            return
        if not any(self._queue.lock_of(operation).endpoint_id == endpoint_id for operation in work):
            await self._engine.ensure_suspended(endpoint_id)
