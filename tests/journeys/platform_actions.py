"""Actions on a platform in this process that several journeys share."""

import asyncio
from typing import Any

from bough.ids import EndpointId
from support.branches import Json, project_path, send_request
from support.platform import Platform


async def run_tasks_and_operations(platform: Platform) -> None:
    """Runs each periodic task once, and then the operations that the tasks created."""
    await platform.run_tasks()
    await platform.run_operations()


async def add_replica(platform: Platform, created: Json, **fields: Any) -> str:
    """Adds a read replica to the branch in a response, and returns its endpoint id."""
    body = {"endpoint": {"branch_id": created["branch"]["id"], "type": "read_only", **fields}}
    response = await send_request(platform, "POST", f"{project_path(created)}/endpoints", status=201, body=body)
    await platform.run_operations()
    return str(response["endpoint"]["id"])


async def wake(platform: Platform, endpoint_id: str) -> None:
    """Wakes an endpoint as the gateway does, with a runner in the background."""
    async with platform.background_runner(), asyncio.timeout(60):
        await platform.inner.gateway_api.wakes.wake(EndpointId(endpoint_id))
