"""Wakes computes: clients that wait for the same endpoint share one request to control."""

import asyncio

from bough.domain.gateway_protocol import ComputeAddress
from bough.gateway.cache import ControlCache
from bough.gateway.control_plane import ControlPlane, retry_while_unavailable
from bough.ids import EndpointId


class ComputeWaker:
    def __init__(self, control_plane: ControlPlane, cache: ControlCache) -> None:
        self._control_plane = control_plane
        self._cache = cache
        self._wakes: dict[EndpointId, asyncio.Task[ComputeAddress]] = {}

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        wake = self._wakes.get(endpoint)
        if wake is None:
            wake = self._wakes[endpoint] = asyncio.create_task(self._wake(endpoint))
            wake.add_done_callback(lambda done: self._on_done(endpoint, done))
        return await asyncio.shield(wake)  # a client that disconnects does not cancel the wake for the others

    async def _wake(self, endpoint: EndpointId) -> ComputeAddress:
        address = await retry_while_unavailable(lambda: self._control_plane.wake(endpoint))
        self._cache.put_address(endpoint, address)
        return address

    def _on_done(self, endpoint: EndpointId, wake: "asyncio.Task[ComputeAddress]") -> None:
        del self._wakes[endpoint]
        if not wake.cancelled():
            wake.exception()  # marks it as retrieved: all clients may have disconnected
