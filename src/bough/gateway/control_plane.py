"""The gateway's view of the control process: three requests, and retries while it restarts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from bough.domain.gateway_protocol import CONTROL_RETRY_SECONDS, Access, ComputeAddress
from bough.domain.gateway_reports import ActivityReport
from bough.errors import Unavailable
from bough.ids import EndpointId

_RETRY_INTERVAL_SECONDS = 0.1

T = TypeVar("T")


class ControlUnavailable(Unavailable):
    """Control does not respond. It may be restarting."""


class ControlPlane(Protocol):
    async def get_access(self, endpoint: EndpointId, role: str) -> Access: ...

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        """Return when the compute accepts connections."""

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        """Return the endpoints that have changed, so that cached access replies about them are invalid."""


async def retry_while_unavailable(request: Callable[[], Awaitable[T]]) -> T:
    """Repeat the request for a while, so that clients do not notice a restart of control."""
    for _ in range(int(CONTROL_RETRY_SECONDS / _RETRY_INTERVAL_SECONDS)):
        try:
            return await request()
        except ControlUnavailable:
            await asyncio.sleep(_RETRY_INTERVAL_SECONDS)
    return await request()
