"""Starts suspended computes: the gateway's wake request. Concurrent requests for an endpoint share one wake.

A wake is an urgent `start_compute` operation: it has runners of its own and waits only for work on its endpoint
and branch. Its writes can be repeated, so they are not durable. The rate of wakes is limited, first come, first
served. An archived branch is unarchived first.
"""

import asyncio

from bough import clock
from bough.config import Settings
from bough.control.gateway import metrics
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy
from bough.control.platform.admission import Admission
from bough.domain.endpoint import Endpoint, EndpointState, request_state
from bough.domain.gateway_protocol import ComputeAddress
from bough.domain.operation import Operation, OperationStatus
from bough.engine.port import ComputeEngine
from bough.errors import Busy, NotFound, PlatformError, PreconditionFailed, Unavailable
from bough.ids import EndpointId
from bough.operations import archival
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.store import Store

REQUEST_ID = "wake"
_POLL_SECONDS = 0.5  # another control process may finish the operation without an event here


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
        """Return the address once the compute accepts connections."""
        address = await self._find_address(await self._get_endpoint(endpoint_id))
        if address is None:
            address = await asyncio.shield(self._shared_wake(endpoint_id))
        self._activity.mark_requested(endpoint_id)
        return address

    async def close(self) -> None:
        """Cancel all wakes; the gateways repeat their requests to the next control process."""
        waking = list(self._waking.values())
        for task in waking:
            task.cancel()
        await asyncio.gather(*waking, return_exceptions=True)

    def _shared_wake(self, endpoint_id: EndpointId) -> asyncio.Task[ComputeAddress]:
        """Return the one wake of an endpoint, which continues even if all requests for it are canceled."""
        waking = self._waking.get(endpoint_id)
        if waking is None:
            waking = self._waking[endpoint_id] = asyncio.create_task(self._wake(endpoint_id))
            waking.add_done_callback(lambda task: self._forget_task(endpoint_id, task))
        return waking

    def _forget_task(self, endpoint_id: EndpointId, task: asyncio.Task[ComputeAddress]) -> None:
        del self._waking[endpoint_id]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the requests may have been canceled

    async def _wake(self, endpoint_id: EndpointId) -> ComputeAddress:
        started_at = clock.monotonic()
        try:
            async with asyncio.timeout(self._seconds), self._admission.admit():
                address = await self._wait_awake(endpoint_id)
        except TimeoutError:
            metrics.count_failed_wake()
            raise Busy(
                f"The compute did not start within {self._seconds:g} seconds, because other operations on it, its "
                "branch or the machine are still running. Try again in a moment."
            ) from None
        except PlatformError:
            metrics.count_failed_wake()
            raise
        metrics.observe_wake(clock.monotonic() - started_at)
        return address

    async def _wait_awake(self, endpoint_id: EndpointId) -> ComputeAddress:
        while True:
            ended = self._events.ended.next_event()
            endpoint = await self._get_endpoint(endpoint_id)
            if address := await self._find_address(endpoint):
                return address
            operation = await self._start(endpoint)
            if operation.kind is StartCompute.kind and operation.endpoint_id == endpoint_id:
                await self._wait_started(operation)
                if address := await self._engine.find_address(endpoint_id):
                    return address
            else:
                await self._events.ended.wait(_POLL_SECONDS, ended)

    async def _get_endpoint(self, endpoint_id: EndpointId) -> Endpoint:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
            if endpoint is None:
                raise NotFound.resource("endpoint")
            await self._allowances.check_limits(rows, endpoint.project_id, clock.now())
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
        """Return the operation that starts the compute, or one that must end first."""
        new_operation = NewOperation.for_endpoint(StartCompute, endpoint)
        async with self._store.transaction(durable=False) as rows:
            conflict = await self._queue.find_conflict(rows, new_operation.lock)
            if conflict is not None:
                if not conflict.is_urgent:
                    await rows.operations.mark_urgent(conflict.id)
                return conflict
            current = await rows.endpoints.get_live(endpoint.id)
            if current is None:
                raise NotFound.resource("endpoint")
            await rows.endpoints.save(request_state(current, EndpointState.ACTIVE, clock.now()))
            unarchive = await archival.plan_unarchive_by_id(rows, endpoint.project_id, endpoint.branch_id)
            operations = await self._queue.enqueue(rows, [*unarchive[-1:], new_operation], REQUEST_ID, is_urgent=True)
            await self._queue.enqueue(rows, unarchive[:-1], REQUEST_ID)  # the wake does not wait for its ancestors
        self._events.enqueued.notify()
        return operations[-1]

    async def _wait_started(self, operation: Operation) -> None:
        while True:
            ended = self._events.ended.next_event()
            async with self._store.read() as rows:
                found = await rows.operations.get(operation.id)
            if found is None or found.has_ended:
                break
            await self._events.ended.wait(_POLL_SECONDS, ended)
        if found is not None and found.status in (OperationStatus.FAILED, OperationStatus.CANCELLED):
            raise Unavailable(found.error or "The compute could not be started.")
