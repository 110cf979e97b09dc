"""Control is killed while it makes an instant database: afterwards that is there and works, or it never was."""

import asyncio
import os
import random
import signal
import uuid

import httpx2
import pytest

from journeys.served_project import TIMEOUT, RunningPlatform, fetch_value
from journeys.test_instant import entered
from support.program import wait_until


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.long)])
async def test_a_database_whose_maker_was_killed_is_whole_or_unknown(own_platform: RunningPlatform, count: int) -> None:
    dice = random.Random(20261117)
    for _ in range(count):
        chosen = str(uuid.uuid4())
        url = f"{own_platform.up_output['instant_url']}/database/{chosen}"
        asked = asyncio.create_task(_create(url))
        await asyncio.sleep(dice.uniform(0, 0.3))
        killed = int(own_platform.bough.status()["control_pid"])
        os.kill(killed, signal.SIGKILL)
        await asked
        await asyncio.to_thread(
            wait_until, lambda pid=killed: own_platform.bough.status()["control_pid"] not in {None, pid}
        )
        seen = await _seen(url)
        if seen.status_code == 400:
            assert seen.json()["message"] == "Database not found"
            continue
        assert seen.status_code == 200
        async with await entered(seen.json()["connection_string"]) as session:
            assert await fetch_value(session, "select 1") == 1


async def _create(url: str) -> None:
    async with httpx2.AsyncClient(timeout=TIMEOUT) as client:
        try:
            await client.post(f"{url}?referrer=tests", json={})
        except httpx2.TransportError:
            return  # its answer went with control


async def _seen(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=TIMEOUT) as client:
        while True:
            try:
                return await client.get(url)
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
