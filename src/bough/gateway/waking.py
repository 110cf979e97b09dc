"""One wake per endpoint, shared by all who wait."""

import asyncio

from bough.gateway.cache import ControlCache
from bough.gateway.control_plane import ComputeAddress, ControlPlane, retry_while_unavailable
from bough.ids import EndpointId


class ComputeWaker:
    def __init__(self, control_plane: ControlPlane, cache: ControlCache) -> None:
        self._plane = control_plane
        self._remembering = cache
        self._wakes: dict[EndpointId, asyncio.Task[ComputeAddress]] = {}

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        wake = self._wakes.get(endpoint)
        if wake is None:
            wake = self._wakes[endpoint] = asyncio.create_task(self._ask(endpoint))
            wake.add_done_callback(lambda done: self._over(endpoint, done))
        return await asyncio.shield(wake)  # who gives up does not take the wake from the others

    async def _ask(self, endpoint: EndpointId) -> ComputeAddress:
        address = await retry_while_unavailable(lambda: self._plane.wake(endpoint))
        self._remembering.put_address(endpoint, address)
        return address

    def _over(self, endpoint: EndpointId, wake: "asyncio.Task[ComputeAddress]") -> None:
        del self._wakes[endpoint]
        if not wake.cancelled():
            wake.exception()  # everybody may have given up; it is theirs to tell
