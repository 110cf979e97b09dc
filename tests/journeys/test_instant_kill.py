"""Control is killed while it creates an instant database. Afterwards the database works, or does not exist."""

import asyncio
import os
import random
import signal
import uuid

import httpx2
import pytest

from journeys.served_project import TIMEOUT, RunningPlatform, fetch_value
from journeys.test_instant import connect
from support.program import wait_until


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.long)])
async def test_a_database_whose_maker_was_killed_is_whole_or_unknown(own_platform: RunningPlatform, count: int) -> None:
    rng = random.Random(20261117)
    for _ in range(count):
        database_id = str(uuid.uuid4())
        url = f"{own_platform.up_output['instant_url']}/database/{database_id}"
        request = asyncio.create_task(_create_database(url))
        await asyncio.sleep(rng.uniform(0, 0.3))
        control_pid = int(own_platform.bough.status()["control_pid"])
        os.kill(control_pid, signal.SIGKILL)
        await request
        await asyncio.to_thread(
            wait_until, lambda pid=control_pid: own_platform.bough.status()["control_pid"] not in {None, pid}
        )
        response = await _get_database(url)
        if response.status_code == 400:
            assert response.json()["message"] == "Database not found"
            continue
        assert response.status_code == 200
        async with await connect(response.json()["connection_string"]) as session:
            assert await fetch_value(session, "select 1") == 1


async def _create_database(url: str) -> None:
    async with httpx2.AsyncClient(timeout=TIMEOUT) as client:
        try:
            await client.post(f"{url}?referrer=tests", json={})
        except httpx2.TransportError:
            return  # control was killed before it answered


async def _get_database(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=TIMEOUT) as client:
        while True:
            try:
                return await client.get(url)
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
