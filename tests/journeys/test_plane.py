"""The socket by which gateways ask control: there before control is ready, and nobody else can reach it."""

import asyncio
import os
import pwd
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from bough import app
from bough.config import Settings
from support.platform import install_templates, make_settings, temporary_folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Settings]:
    """The platform as `bough up` runs it, stopped with its computes at the end."""
    settings = make_settings(folder, api_port=free_port(), hosts_file=None)
    install_templates(settings.home)
    ready = asyncio.Event()
    stopping: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    platform = asyncio.create_task(app.serve(settings, ready=ready.set, stopping=stopping))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({platform, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if platform.done():
        platform.result()
    try:
        yield settings
    finally:
        stopping.set_result(True)
        await platform


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.AsyncHTTPTransport(uds=str(settings.control_socket))
    async with httpx2.AsyncClient(transport=transport, base_url="http://plane/plane/v1", timeout=60) as client:
        yield client


async def create_project(settings: Settings) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {app.load_operator_key(settings)}"}
    url = f"http://127.0.0.1:{settings.api_port}/api/v2/projects"
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        made: dict[str, Any] = (await client.post(url, json={"project": {}})).json()
    return made


async def test_it_is_there_when_control_is_ready_and_answers_over_a_restart() -> None:
    with temporary_folder() as folder:
        async with served(folder) as settings, asking(settings) as plane:
            endpoint = (await create_project(settings))["endpoints"][0]["id"]
            who = {"endpoint": endpoint, "role": "neondb_owner"}
            assert (await plane.post("/access", json=who)).json()["is_known"]
            woken = await plane.post("/wake", json={"endpoint": endpoint})
            assert woken.status_code == 200, woken.text
            assert Path(woken.json()["host"], ".s.PGSQL.5432").is_socket()
            salt = (await plane.post("/access", json={**who, "role": "x"})).json()["verifier"].split("$")[1]
        assert settings.control_socket.exists(), "a control that is gone leaves its socket"
        async with served(folder) as settings, asking(settings) as plane:
            again = await plane.post("/wake", json={"endpoint": endpoint})
            assert again.json() == woken.json(), "it slept since the platform was stopped, and wakes"
            mock = (await plane.post("/access", json={**who, "role": "x"})).json()["verifier"]
            assert mock.split("$")[1] == salt


async def test_only_the_gateway_can_reach_it() -> None:
    with temporary_folder() as folder:
        async with served(folder) as settings:
            seen = settings.control_socket.parent.stat()
            assert seen.st_uid == os.geteuid()
            if os.geteuid() == 0:
                group = pwd.getpwnam(settings.gateway_user).pw_gid
                assert (stat.S_IMODE(seen.st_mode), seen.st_gid) == (0o710, group)
            else:
                assert stat.S_IMODE(seen.st_mode) == 0o700
