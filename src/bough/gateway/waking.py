"""One wake per endpoint, shared by all who wait."""

import asyncio

from bough.gateway.plane import Address, Plane, patiently
from bough.gateway.remembering import Remembering
from bough.ids import EndpointId


class Waking:
    def __init__(self, plane: Plane, remembering: Remembering) -> None:
        self._plane = plane
        self._remembering = remembering
        self._wakes: dict[EndpointId, asyncio.Task[Address]] = {}

    async def wake(self, endpoint: EndpointId) -> Address:
        wake = self._wakes.get(endpoint)
        if wake is None:
            wake = self._wakes[endpoint] = asyncio.create_task(self._ask(endpoint))
            wake.add_done_callback(lambda done: self._over(endpoint, done))
        return await asyncio.shield(wake)  # who gives up does not take the wake from the others

    async def _ask(self, endpoint: EndpointId) -> Address:
        address = await patiently(lambda: self._plane.wake(endpoint))
        self._remembering.keep_address(endpoint, address)
        return address

    def _over(self, endpoint: EndpointId, wake: "asyncio.Task[Address]") -> None:
        del self._wakes[endpoint]
        if not wake.cancelled():
            wake.exception()  # everybody may have given up; it is theirs to tell
