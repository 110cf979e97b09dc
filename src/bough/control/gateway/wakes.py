"""Where is it: the gateway's second question. An endpoint that sleeps is woken, once however many ask.

A wake is a `start_compute` operation like any other, but an urgent one: it has workers of its own, and
waits only for work on its own endpoint and branch. What it writes may be repeated, so it does not wait
for the disk. Computes are woken at a bounded rate, and who waits for that waits in order. A branch that was archived
is brought back first.
"""

import asyncio

from bough import clock
from bough.config import Settings
from bough.control.gateway import metrics
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy
from bough.control.platform.admission import Admission
from bough.domain.endpoint import Endpoint, EndpointState, request_state
from bough.domain.operation import Operation, OperationStatus
from bough.engine.port import ComputeAddress, ComputeEngine
from bough.errors import Busy, NotFound, PlatformError, PreconditionFailed, Unavailable
from bough.ids import EndpointId
from bough.operations import archival
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.store import Store

REQUEST_ID = "wake"
_POLL_SECONDS = 0.5  # seconds; another control may have ended the work without our hearing of it


class Wakes:
    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        engine: ComputeEngine,
        queue: OperationQueue,
        events: Events,
        activity: EndpointActivity,
        allowances: AllowancePolicy,
    ) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._events = events
        self._activity = activity
        self._allowances = allowances
        self._seconds = settings.wake_seconds
        self._admission = Admission(settings.wakes_at_once, settings.wakes_per_second)
        self._waking: dict[EndpointId, asyncio.Task[ComputeAddress]] = {}

    async def wake(self, endpoint_id: EndpointId) -> ComputeAddress:
        """Where it accepts connections, as soon as it does."""
        address = await self._find_address(await self._endpoint(endpoint_id))
        if address is None:
            address = await asyncio.shield(self._shared(endpoint_id))
        self._activity.mark_requested(endpoint_id)
        return address

    async def close(self) -> None:
        """Whoever still waits asks the next control."""
        waking = list(self._waking.values())
        for task in waking:
            task.cancel()
        await asyncio.gather(*waking, return_exceptions=True)

    def _shared(self, endpoint_id: EndpointId) -> asyncio.Task[ComputeAddress]:
        """One for all who ask; it goes on when they leave."""
        waking = self._waking.get(endpoint_id)
        if waking is None:
            waking = self._waking[endpoint_id] = asyncio.create_task(self._wake(endpoint_id))
            waking.add_done_callback(lambda task: self._forget_task(endpoint_id, task))
        return waking

    def _forget_task(self, endpoint_id: EndpointId, task: asyncio.Task[ComputeAddress]) -> None:
        del self._waking[endpoint_id]
        if not task.cancelled():
            task.exception()  # whoever asked was told, and may have left

    async def _wake(self, endpoint_id: EndpointId) -> ComputeAddress:
        began = clock.monotonic()
        try:
            async with asyncio.timeout(self._seconds), self._admission.admit():
                address = await self._until_awake(endpoint_id)
        except TimeoutError:
            metrics.count_failed_wake()
            raise Busy(
                f"The compute did not wake within {self._seconds:g} seconds: other work on it, on its branch or on the "
                "machine takes long. Try again in a moment."
            ) from None
        except PlatformError:
            metrics.count_failed_wake()
            raise
        metrics.observe_wake(clock.monotonic() - began)
        return address

    async def _until_awake(self, endpoint_id: EndpointId) -> ComputeAddress:
        while True:
            ended = self._events.ended.next_event()
            endpoint = await self._endpoint(endpoint_id)
            if address := await self._find_address(endpoint):
                return address
            work = await self._start(endpoint)
            if work.kind is StartCompute.kind and work.endpoint_id == endpoint_id:
                await self._until_started(work)
                if address := await self._engine.find_address(endpoint_id):
                    return address
            else:
                await self._events.ended.wait(_POLL_SECONDS, ended)

    async def _endpoint(self, endpoint_id: EndpointId) -> Endpoint:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
            if endpoint is None:
                raise NotFound.resource("endpoint")
            await self._allowances.check_transfer_limit(rows, endpoint.project_id, clock.now())
        if endpoint.disabled:
            raise PreconditionFailed(
                f"The endpoint {endpoint_id} is disabled. Enable it with PATCH "
                f'/projects/{endpoint.project_id}/endpoints/{endpoint_id} and {{"endpoint": {{"disabled": false}}}}.'
            )
        return endpoint

    async def _find_address(self, endpoint: Endpoint) -> ComputeAddress | None:
        if endpoint.state is not EndpointState.ACTIVE or endpoint.pending_state is not None:
            return None
        return await self._engine.find_address(endpoint.id)

    async def _start(self, endpoint: Endpoint) -> Operation:
        """The operation that starts it, or the work that has to end before."""
        wish = NewOperation(StartCompute, endpoint.project_id, endpoint.branch_id, endpoint.id)
        async with self._store.transaction(durable=False) as rows:
            obstacle = await self._queue.find_conflict(rows, wish.lock)
            if obstacle is not None:
                if not obstacle.is_urgent:
                    await rows.operations.mark_urgent(obstacle.id)
                return obstacle
            fresh = await rows.endpoints.get_live(endpoint.id)
            if fresh is None:
                raise NotFound.resource("endpoint")
            await rows.endpoints.save(request_state(fresh, EndpointState.ACTIVE, clock.now()))
            line = await archival.plan_unarchive_by_id(rows, endpoint.project_id, endpoint.branch_id)
            operations = await self._queue.enqueue(rows, [*line[-1:], wish], REQUEST_ID, is_urgent=True)
            await self._queue.enqueue(rows, line[:-1], REQUEST_ID)  # nobody waits for its ancestors
        self._events.enqueued.notify()
        return operations[-1]

    async def _until_started(self, operation: Operation) -> None:
        while True:
            ended = self._events.ended.next_event()
            async with self._store.read() as rows:
                found = await rows.operations.get(operation.id)
            if found is None or found.has_ended:
                break
            await self._events.ended.wait(_POLL_SECONDS, ended)
        if found is not None and found.status in (OperationStatus.FAILED, OperationStatus.CANCELLED):
            raise Unavailable(found.error or "The compute could not be started.")
