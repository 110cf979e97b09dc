"""A worker that has switched to another user reads no more files of the program."""

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

# Records the modules that the worker imports once it serves. It keeps its user: not every test runs as root.
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
async def serve_control_plane(stub: FakePostgresControlPlane, path: Path) -> AsyncIterator[None]:
    connections: set[asyncio.Task[None]] = set()

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = json.loads(await reader.readexactly(int(head.split("content-length:")[1].split()[0])))
                request = head.split()[1].rsplit("/", 1)[1]
                if request == "access":
                    reply_body = (await stub.get_access(body["endpoint"], body["role"])).to_json()
                elif request == "wake":
                    address = await stub.wake(body["endpoint"])
                    reply_body = {"host": address.host, "port": address.port}
                else:
                    reply_body = {"drop": []}
                text = json.dumps(reply_body).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
        except asyncio.IncompleteReadError:
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(lambda *ends: connections.add(asyncio.create_task(reply(*ends))), path)
    yield
    server.close()
    await asyncio.gather(*connections)


@pytest.fixture
async def launched_worker(gateway: InProcessGateway) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a worker process instead of the in-process one; late imports are listed in the file `late`."""
    listener = gateway.servers[0]._listeners[0].dup()
    gateway.servers[0].stop_accepting()
    async with (
        serve_control_plane(gateway.control_plane, gateway.folder / "stub.sock"),
        start_worker(gateway, listener.fileno()) as process,
    ):
        yield process
    listener.close()


@asynccontextmanager
async def start_worker(in_process: InProcessGateway, listener: int) -> AsyncIterator[asyncio.subprocess.Process]:
    ready, write_end = os.pipe()
    alive, our_end = os.pipe()
    settings = {
        "listen_fds": [listener],
        "local_socket_fd": None,
        "domain": "localhost",
        "control_socket": str(in_process.folder / "stub.sock"),
        "folder": str(in_process.folder),
        "certificate_path": str(in_process.pem),
        "log_level": "info",
    }
    pipes = ("--ready-fd", str(write_end), "--alive-fd", str(alive))
    with (in_process.folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", WATCHED, str(in_process.folder / "late"), ""),
            *(*pipes, "--settings", json.dumps(settings)),
            pass_fds=(listener, write_end, alive),
            stderr=log,
        )
    os.close(write_end)
    with os.fdopen(ready) as pipe:
        assert await asyncio.to_thread(pipe.readline) == '{"ready": true}\n', (in_process.folder / "log").read_text()
    yield process
    if process.returncode is None:
        process.terminate()
        await process.wait()
    os.close(alive)
    os.close(our_end)


async def start_login(in_process: InProcessGateway, password: str = PASSWORD) -> WireClient:
    wire = await in_process.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    wire.send_startup()
    await wire.authenticate(password, binds=True)
    return wire


async def test_nothing_is_loaded_late(
    gateway: InProcessGateway, launched_worker: asyncio.subprocess.Process, postgres_server: PostgresServer
) -> None:
    wire = await start_login(gateway)
    key = next(m.body for m in await wire.read_until(messages.READY_FOR_QUERY) if m.type == messages.BACKEND_KEY_DATA)
    wire.send(b"Q", b"select pg_sleep(600)\0")
    cancelling = await gateway.open_wire_client()
    cancelling.writer.write((len(key) + 8).to_bytes(4) + (80877102).to_bytes(4) + key)
    assert await cancelling.reader.read() == b""
    await wire.read_until(messages.ERROR_RESPONSE)
    await wire.read_until(messages.READY_FOR_QUERY)
    assert (await (await start_login(gateway, "wrong")).read_error()).sqlstate == "28P01"
    by_password = f"hostaddr=127.0.0.1 port={gateway.port} user=store dbname=postgres sslmode=require"
    assert await gateway.query_with_libpq(by_password, password=f"endpoint={ENDPOINT};{PASSWORD}") == "1"
    (await gateway.open_wire_client()).writer.write(b"nonsense" * 100)
    gateway.write_certificate()
    old = wire.channel_binding()
    while (await start_login(gateway)).channel_binding() == old:  # noqa: ASYNC110  another process takes it up
        await asyncio.sleep(0.3)
    await asyncio.sleep(1.2)  # until a report is sent
    launched_worker.terminate()
    assert (await wire.read_error()).sqlstate == "57P01"
    assert await launched_worker.wait() == 0
    assert (gateway.folder / "late").read_text() == "", (gateway.folder / "log").read_text()
