"""Telling the doors of the platform what is about to happen: an operation may not know who keeps them."""

from collections.abc import Collection
from typing import Protocol

from bough.ids import EndpointId


class GatewayPort(Protocol):
    async def end_sessions(self, endpoints: Collection[EndpointId], reason: str) -> None:
        """The computes of these are about to end: whoever is connected and waits for nothing is told why."""

    async def invalidate(self, endpoints: Collection[EndpointId]) -> None:
        """What is remembered of these is not true any more."""


class NoGateway:
    """Where nobody is let in."""

    async def end_sessions(self, endpoints: Collection[EndpointId], reason: str) -> None:
        return None

    async def invalidate(self, endpoints: Collection[EndpointId]) -> None:
        return None
