"""Notifies the gateway's workers on this machine on behalf of operations."""

from collections.abc import Collection
from pathlib import Path

from bough.control.gateway import notify
from bough.control.gateway.activity import EndpointActivity
from bough.ids import EndpointId


class GatewayNotifier:
    def __init__(self, folder: Path, activity: EndpointActivity) -> None:
        self._folder = folder
        self._activity = activity

    async def end_sessions(self, endpoints: Collection[EndpointId], reason: str) -> None:
        await notify.end_sessions(self._folder, endpoints, reason)

    async def invalidate(self, endpoints: Collection[EndpointId]) -> None:
        for endpoint in endpoints:
            self._activity.invalidate(endpoint)
        await notify.invalidate_endpoints(self._folder, endpoints)
