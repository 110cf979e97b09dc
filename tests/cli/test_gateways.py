"""Gateway workers under the supervisor: who dies alone, who drains, who ends, and that nobody is ever refused."""

import asyncio
import json
import os
import pwd
import signal
import socket
import ssl
import stat
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings
from support.platform import temporary_folder
from support.program import TWO_WORKERS, Program, is_alive, wait_until

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class Tenant:
    """Somebody with a project, who comes by the gateway and verifies it."""

    def __init__(self, bough: Program) -> None:
        said = bough.up_output
        request = urllib.request.Request(
            f"{said['api_url']}/projects",
            data=json.dumps({"project": {"name": "first"}}).encode(),
            headers={"Authorization": f"Bearer {said['api_key']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            made = json.load(answer)
        self._port = said["gateway_port"]
        self._tls = ssl.create_default_context(cafile=str(bough.home / "ca.crt"))
        self._endpoint = made["endpoints"][0]["id"]
        self._given = made["connection_uris"][0]["connection_parameters"]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=self._port,
            ssl=self._tls,
            user=self._given["role"],
            password=self._given["password"],
            database=self._given["database"],
            server_settings={"options": f"endpoint={self._endpoint}"},
            timeout=30,
        )
        try:
            yield connection
        finally:
            connection.terminate()


@pytest.fixture(scope="module")
def restarted() -> Iterator[Program]:
    """A platform for tests that kill and restart parts of it, and leave it running."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", TWO_WORKERS)
        yield program
        program.clean_up()


@pytest.fixture
def tenant(restarted: Program) -> Tenant:
    if not restarted.is_running():  # the first one, or one after a failure
        restarted.up()
    return Tenant(restarted)


def knocks(port: int, host: str = "127.0.0.1") -> bytes:
    """What a new client hears first: `S`, come in."""
    with socket.create_connection((host, port), timeout=20) as client:
        client.sendall(SSL_REQUEST)
        return client.recv(1)


@contextmanager
def knocking(port: int) -> Iterator[list[bytes | OSError]]:
    """Clients that come all the time; what each of them heard."""
    heard: list[bytes | OSError] = []
    over = threading.Event()

    def knock() -> None:
        while not over.is_set():
            try:
                heard.append(knocks(port))
            except OSError as error:
                heard.append(error)
            time.sleep(0.005)

    knocker = threading.Thread(target=knock)
    knocker.start()
    try:
        yield heard
    finally:
        over.set()
        knocker.join()


def workers(bough: Program) -> list[dict[str, int]]:
    found: list[dict[str, int]] = bough.status()["gateway_workers"]
    return found


def pids(bough: Program) -> list[int]:
    return [worker["pid"] for worker in workers(bough)]


def restarts(bough: Program) -> list[int]:
    return [worker["restarts"] for worker in workers(bough)]


def replaced(bough: Program, before: list[int]) -> list[int] | None:
    """The workers, when all run and not all are those before."""
    now = pids(bough)
    return now if 0 not in now and now != before else None


def worker_of(bough: Program, connection: asyncpg.Connection) -> int:
    """The worker that serves the connection: the one that has the other end of it open."""
    ours = connection._transport.get_extra_info("sockname")
    inode = next(
        fields[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if (fields := line.split())[2].endswith(f":{ours[1]:04X}")
    )
    return next(
        pid
        for pid in pids(bough)
        if any(str(entry.readlink()) == f"socket:[{inode}]" for entry in Path(f"/proc/{pid}/fd").iterdir())
    )


async def test_clients_are_served_on_both_loopback_addresses(shared_bough: Program) -> None:
    port = shared_bough.status()["gateway_port"]
    assert knocks(port) == b"S"
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        assert knocks(port, "::1") == b"S"


def test_status_shows_the_workers(shared_bough: Program) -> None:
    shown = shared_bough.status()
    assert [worker["restarts"] for worker in shown["gateway_workers"]] == [0, 0]
    assert shown["gateway_workers_draining"] == 0
    assert all(is_alive(pid) and os.getsid(pid) == pid for pid in pids(shared_bough))
    first, second = pids(shared_bough)
    assert f"pid {first}, pid {second}" in shared_bough("status").stdout
    log = shared_bough.home / "logs" / "gateway.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give the gateway a user of its own")
def test_workers_are_nobody_who_could_become_somebody(shared_bough: Program) -> None:
    gateway = pwd.getpwnam("bough-gateway")
    for pid in pids(shared_bough):
        told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        assert told["Uid"].split() == [str(gateway.pw_uid)] * 4
        assert told["Gid"].split() == [str(gateway.pw_gid)] * 4
        assert (told["Groups"].strip(), told["NoNewPrivs"].strip()) == ("", "1")
        assert {told[name].strip() for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
        variables = Path(f"/proc/{pid}/environ").read_text()
        assert "BOUGH_" not in variables, "one of the settings may hold a password"
    folder = Settings(home=shared_bough.home).sockets / "gateway"
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (gateway.pw_uid, 0o700)


async def test_a_worker_that_is_killed_takes_its_own_connections_alone_and_comes_back(
    restarted: Program, tenant: Tenant
) -> None:
    bough, counts = restarted, restarts(restarted)
    async with tenant.connected() as one, tenant.connected() as two, tenant.connected() as three:
        served = {connection: worker_of(bough, connection) for connection in (one, two, three)}
        before = pids(bough)
        victim = served[one]
        with knocking(bough.up_output["gateway_port"]) as heard:
            os.kill(victim, signal.SIGKILL)
            after = await asyncio.to_thread(wait_until, lambda: replaced(bough, before))
        assert [pid for pid in before if pid != victim] == [pid for pid in after if pid in before]
        assert sum(restarts(bough)) == sum(counts) + 1
        for connection, worker in served.items():
            if worker == victim:
                with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
                    await connection.fetchval("select 1")
            else:
                assert await connection.fetchval("select 1") == 1
        refused = [one for one in heard if isinstance(one, ConnectionRefusedError)]
        assert refused == [], "those who wait are held"
        assert heard[-1] == b"S"
    async with tenant.connected() as again:
        assert await again.fetchval("select 1") == 1


async def test_a_restart_refuses_nobody_and_open_connections_go_on(restarted: Program, tenant: Tenant) -> None:
    bough = restarted
    async with tenant.connected() as connection:
        await connection.execute("create temporary table mine as select 7 as n")
        before = pids(bough)
        with knocking(bough.up_output["gateway_port"]) as heard:
            done = await asyncio.to_thread(bough, "restart")
            assert done.returncode == 0, done.stderr
        assert set(heard) == {b"S"}
        assert len(heard) > 5
        assert not set(before) & set(pids(bough))
        old = [pid for pid in before if is_alive(pid)]
        assert len(old) == 1
        assert bough.status()["gateway_workers_draining"] == 1
        assert await connection.fetchval("select n from mine") == 7

        assert (await asyncio.to_thread(bough, "restart")).returncode == 0
        assert await connection.fetchval("select n from mine") == 7, "over a second restart too"
    await asyncio.to_thread(wait_until, lambda: not is_alive(old[0]))
    await asyncio.to_thread(wait_until, lambda: bough.status()["gateway_workers_draining"] == 0)
    async with tenant.connected() as again:
        assert await again.fetchval("select 1") == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGQUIT, marks=pytest.mark.long)])
async def test_connections_outlive_a_supervisor_and_the_next_one_has_the_port(
    restarted: Program, tenant: Tenant, how: signal.Signals
) -> None:
    bough, said = restarted, restarted.up_output
    async with tenant.connected() as connection:
        await connection.execute("create temporary table mine as select 7 as n")
        supervisor, old = bough.supervisor_pid(), pids(bough)
        os.kill(supervisor, how)
        await asyncio.to_thread(wait_until, lambda: not is_alive(supervisor))
        assert await connection.fetchval("select n from mine") == 7
        again = await asyncio.to_thread(bough.up)
        assert again["gateway_port"] == said["gateway_port"]
        assert await connection.fetchval("select n from mine") == 7
        assert {knocks(said["gateway_port"]) for _ in range(20)} == {b"S"}, "the old ones listen no more"
        assert not set(old) & set(pids(bough))
    await asyncio.to_thread(wait_until, lambda: not any(is_alive(pid) for pid in old))


def _workers_of(bough: Program) -> list[int]:
    """All of them, draining ones too."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"bough.gateway.launch" in command and os.fsencode(bough.home) in command:
            found.append(int(entry.name))
    assert len(found) > 3
    return found


async def test_a_changed_number_of_workers_counts_from_the_next_restart_and_down_ends_them_all(
    bough: Program, is_long_run: bool
) -> None:
    bough.variables = {}
    port = bough.up()["gateway_port"]
    assert len(workers(bough)) == len(os.sched_getaffinity(0))
    tenant = Tenant(bough)
    async with tenant.connected() as old, tenant.connected() as older:
        for count in (1, 3) if is_long_run else (3,):
            (bough.home / "bough.toml").write_text(f"gateway_workers = {count}")
            assert (await asyncio.to_thread(bough, "restart")).returncode == 0
            assert len(workers(bough)) == count
            assert {knocks(port) for _ in range(20)} == {b"S"}
        assert bough.status()["gateway_workers_draining"] >= 1
        async with tenant.connected() as new:
            every = _workers_of(bough)
            done = await asyncio.to_thread(bough, "down")
            assert done.returncode == 0, done.stderr
            assert [pid for pid in every if is_alive(pid)] == []
            for connection in (old, older, new):
                with pytest.raises((asyncpg.AdminShutdownError, asyncpg.InterfaceError, OSError)):
                    await connection.fetchval("select 1")
    assert not (Settings(home=bough.home).sockets / "door" / ".s.PGSQL.5432").exists()
    with pytest.raises(ConnectionRefusedError):
        knocks(port)
    _assert_one_that_cannot_start_keeps_the_platform_from_starting(bough)


def _assert_one_that_cannot_start_keeps_the_platform_from_starting(bough: Program) -> None:
    blocked = bough.home / "logs" / "gateway.log"
    blocked.unlink()
    blocked.mkdir()
    done = bough("up", "--detach", *bough.port_arguments())
    assert done.returncode == 1
    assert done.stderr.count("bough: ") == 1
    assert "Traceback" not in done.stderr
    assert bough("status").returncode == 3
