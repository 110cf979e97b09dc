"""A worker that has become somebody else reads nothing of the program from the disk any more."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bough.gateway.wire import messages
from support.gateway import ENDPOINT, PASSWORD, FakePostgresControlPlane, InProcessGateway, WireClient
from support.postgres import PostgresServer

# What the worker imports once it serves is written down. It stays who it is: not every test runs as root.
WATCHED = """
import sys
from bough.gateway import launch
late = open(sys.argv.pop(1), "w", buffering=1)
serve = launch.serve

def watched(given):
    sys.addaudithook(lambda event, about: event == "import" and late.write(f"{about[0]}\\n"))
    return serve(given)

launch.serve = watched
launch.main()
"""


@asynccontextmanager
async def plane_of(plane: FakePostgresControlPlane, path: Path) -> AsyncIterator[None]:
    connections: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = json.loads(await reader.readexactly(int(head.split("content-length:")[1].split()[0])))
                question = head.split()[1].rsplit("/", 1)[1]
                if question == "access":
                    said = (await plane.get_access(body["endpoint"], body["role"])).to_json()
                elif question == "wake":
                    address = await plane.wake(body["endpoint"])
                    said = {"host": address.host, "port": address.port}
                else:
                    said = {"drop": []}
                text = json.dumps(said).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
        except asyncio.IncompleteReadError:
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(lambda *ends: connections.add(asyncio.create_task(answer(*ends))), path)
    yield
    server.close()
    await asyncio.gather(*connections)


@pytest.fixture
async def launched(gateway: InProcessGateway) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker of its own in the place of the doorway's; what it imports late is in the file `late`."""
    listener = gateway.servers[0]._listeners[0].dup()
    gateway.servers[0].stop_accepting()
    async with (
        plane_of(gateway.control_plane, gateway.folder / "plane.sock"),
        worker(gateway, listener.fileno()) as process,
    ):
        yield process
    listener.close()


@asynccontextmanager
async def worker(doorway: InProcessGateway, listener: int) -> AsyncIterator[asyncio.subprocess.Process]:
    ready, write_end = os.pipe()
    alive, our_end = os.pipe()
    settings = {
        "listen_fds": [listener],
        "door_fd": None,
        "domain": "localhost",
        "plane": str(doorway.folder / "plane.sock"),
        "folder": str(doorway.folder),
        "tls": str(doorway.pem),
        "log_level": "info",
    }
    pipes = ("--ready-fd", str(write_end), "--alive-fd", str(alive))
    with (doorway.folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", WATCHED, str(doorway.folder / "late"), ""),
            *(*pipes, "--settings", json.dumps(settings)),
            pass_fds=(listener, write_end, alive),
            stderr=log,
        )
    os.close(write_end)
    with os.fdopen(ready) as said:
        assert await asyncio.to_thread(said.readline) == '{"ready": true}\n', (doorway.folder / "log").read_text()
    yield process
    if process.returncode is None:
        process.terminate()
        await process.wait()
    os.close(alive)
    os.close(our_end)


async def entered(doorway: InProcessGateway, password: str = PASSWORD) -> WireClient:
    wire = await doorway.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    wire.send_startup()
    await wire.authenticate(password, binds=True)
    return wire


async def test_nothing_is_loaded_late(
    gateway: InProcessGateway, launched: asyncio.subprocess.Process, postgres_server: PostgresServer
) -> None:
    wire = await entered(gateway)
    key = next(m.body for m in await wire.read_until(messages.READY_FOR_QUERY) if m.type == messages.BACKEND_KEY_DATA)
    wire.send(b"Q", b"select pg_sleep(600)\0")
    cancelling = await gateway.open_wire_client()
    cancelling.writer.write((len(key) + 8).to_bytes(4) + (80877102).to_bytes(4) + key)
    assert await cancelling.reader.read() == b""
    await wire.read_until(messages.ERROR_RESPONSE)
    await wire.read_until(messages.READY_FOR_QUERY)
    assert (await (await entered(gateway, "wrong")).read_error()).sqlstate == "28P01"
    by_password = f"hostaddr=127.0.0.1 port={gateway.port} user=store dbname=postgres sslmode=require"
    assert await gateway.query_with_libpq(by_password, password=f"endpoint={ENDPOINT};{PASSWORD}") == "1"
    (await gateway.open_wire_client()).writer.write(b"nonsense" * 100)
    gateway.write_certificate()
    old = wire.channel_binding()
    while (await entered(gateway)).channel_binding() == old:  # noqa: ASYNC110  another process takes it up
        await asyncio.sleep(0.3)
    await asyncio.sleep(1.2)  # a report goes out
    launched.terminate()
    assert (await wire.read_error()).sqlstate == "57P01"
    assert await launched.wait() == 0
    assert (gateway.folder / "late").read_text() == "", (gateway.folder / "log").read_text()
