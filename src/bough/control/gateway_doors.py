"""The doors of this machine, for operations: the gateway's workers, told by their own sockets."""

from collections.abc import Collection
from pathlib import Path

from bough.control import telling
from bough.control.activity import Activity
from bough.ids import EndpointId


class GatewayDoors:
    def __init__(self, folder: Path, activity: Activity) -> None:
        self._folder = folder
        self._activity = activity

    async def end(self, endpoints: Collection[EndpointId], why: str) -> None:
        await telling.end(self._folder, endpoints, why)

    async def forget(self, endpoints: Collection[EndpointId]) -> None:
        for endpoint in endpoints:
            self._activity.changed(endpoint)
        await telling.forget(self._folder, endpoints)
