"""Telling the doors of the platform what is about to happen: an operation may not know who keeps them."""

from collections.abc import Collection
from typing import Protocol

from bough.ids import EndpointId


class Doors(Protocol):
    async def end(self, endpoints: Collection[EndpointId], why: str) -> None:
        """The computes of these are about to end: whoever is connected and waits for nothing is told why."""

    async def forget(self, endpoints: Collection[EndpointId]) -> None:
        """What is remembered of these is not true any more."""


class NoDoors:
    """Where nobody is let in."""

    async def end(self, endpoints: Collection[EndpointId], why: str) -> None:
        return None

    async def forget(self, endpoints: Collection[EndpointId]) -> None:
        return None
