"""The socket on which control serves the gateway: it exists when control is ready, and only the gateway reaches it."""

import asyncio
import os
import pwd
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from bough import app
from bough.config import Settings
from support.platform import install_templates, make_settings, temporary_folder
from support.program import find_free_port


@asynccontextmanager
async def run_platform(folder: Path) -> AsyncIterator[Settings]:
    """Runs the platform as `bough up` does, and stops it with its computes at the end."""
    settings = make_settings(folder, api_port=find_free_port(), hosts_file=None)
    install_templates(settings.home)
    ready = asyncio.Event()
    stopping: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    platform = asyncio.create_task(app.serve(settings, ready=ready.set, stopping=stopping))
    becoming_ready = asyncio.create_task(ready.wait())
    await asyncio.wait({platform, becoming_ready}, return_when=asyncio.FIRST_COMPLETED)
    becoming_ready.cancel()
    if platform.done():
        platform.result()
    try:
        yield settings
    finally:
        stopping.set_result(True)
        await platform


@asynccontextmanager
async def open_gateway_client(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.AsyncHTTPTransport(uds=str(settings.control_socket))
    async with httpx2.AsyncClient(transport=transport, base_url="http://plane/plane/v1", timeout=60) as client:
        yield client


async def create_project(settings: Settings) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {app.load_operator_key(settings)}"}
    url = f"http://127.0.0.1:{settings.api_port}/api/v2/projects"
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        created: dict[str, Any] = (await client.post(url, json={"project": {}})).json()
    return created


async def test_it_is_there_when_control_is_ready_and_answers_over_a_restart() -> None:
    with temporary_folder() as folder:
        async with run_platform(folder) as settings, open_gateway_client(settings) as gateway_client:
            endpoint = (await create_project(settings))["endpoints"][0]["id"]
            login = {"endpoint": endpoint, "role": "neondb_owner"}
            assert (await gateway_client.post("/access", json=login)).json()["is_known"]
            first_wake = await gateway_client.post("/wake", json={"endpoint": endpoint})
            assert first_wake.status_code == 200, first_wake.text
            assert Path(first_wake.json()["host"], ".s.PGSQL.5432").is_socket()
            salt = (await gateway_client.post("/access", json={**login, "role": "x"})).json()["verifier"].split("$")[1]
        assert settings.control_socket.exists(), "control leaves its socket when it stops"
        async with run_platform(folder) as settings, open_gateway_client(settings) as gateway_client:
            second_wake = await gateway_client.post("/wake", json={"endpoint": endpoint})
            assert second_wake.json() == first_wake.json(), (
                "the compute was suspended when the platform stopped, and wakes"
            )
            mock_verifier = (await gateway_client.post("/access", json={**login, "role": "x"})).json()["verifier"]
            assert mock_verifier.split("$")[1] == salt


async def test_only_the_gateway_can_reach_it() -> None:
    with temporary_folder() as folder:
        async with run_platform(folder) as settings:
            status = settings.control_socket.parent.stat()
            assert status.st_uid == os.geteuid()
            if os.geteuid() == 0:
                group = pwd.getpwnam(settings.gateway_user).pw_gid
                assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o710, group)
            else:
                assert stat.S_IMODE(status.st_mode) == 0o700
