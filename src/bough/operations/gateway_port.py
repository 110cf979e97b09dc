"""The port through which operations notify gateways."""

from collections.abc import Collection
from typing import Protocol

from bough.ids import EndpointId


class GatewayPort(Protocol):
    async def end_sessions(self, endpoints: Collection[EndpointId], reason: str) -> None:
        """End the sessions of these endpoints, whose computes are about to stop; idle clients are told the reason."""

    async def invalidate(self, endpoints: Collection[EndpointId]) -> None:
        """Drop what gateways have cached about these endpoints."""


class NoGateway:
    """For platforms without gateways."""

    async def end_sessions(self, endpoints: Collection[EndpointId], reason: str) -> None:
        return None

    async def invalidate(self, endpoints: Collection[EndpointId]) -> None:
        return None
