"""Gateway workers under the supervisor: deaths, drains and stops, during which no client is ever refused."""

import asyncio
import os
import pwd
import signal
import socket
import ssl
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings
from support.platform import temporary_folder
from support.program import TWO_WORKERS, Program, create_project, is_alive, wait_until

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class Tenant:
    """A client with a project that connects through the gateway and verifies its certificate."""

    def __init__(self, bough: Program) -> None:
        created = create_project(bough.up_output, "first")
        self._port = bough.up_output["gateway_port"]
        self._tls = ssl.create_default_context(cafile=str(bough.home / "ca.crt"))
        self._endpoint = created["endpoints"][0]["id"]
        self._parameters = created["connection_uris"][0]["connection_parameters"]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=self._port,
            ssl=self._tls,
            user=self._parameters["role"],
            password=self._parameters["password"],
            database=self._parameters["database"],
            server_settings={"options": f"endpoint={self._endpoint}"},
            timeout=30,
        )
        try:
            yield connection
        finally:
            connection.terminate()


@pytest.fixture(scope="module")
def restarted() -> Iterator[Program]:
    """A platform for tests that kill and restart its processes, and leave it running."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", TWO_WORKERS)
        yield program
        program.clean_up()


@pytest.fixture
def tenant(restarted: Program) -> Tenant:
    if not restarted.is_running():  # at first, or after a failure
        restarted.up()
    return Tenant(restarted)


def request_tls(port: int, host: str = "127.0.0.1") -> bytes:
    """Sends an SSLRequest as a new client and returns the response; the gateway answers `S`."""
    with socket.create_connection((host, port), timeout=20) as client:
        client.sendall(SSL_REQUEST)
        return client.recv(1)


@contextmanager
def steady_clients(port: int) -> Iterator[list[bytes | OSError]]:
    """Connects new clients all the time; yields the list of their results."""
    results: list[bytes | OSError] = []
    stopped = threading.Event()

    def connect_repeatedly() -> None:
        while not stopped.is_set():
            try:
                results.append(request_tls(port))
            except OSError as error:
                results.append(error)
            time.sleep(0.005)

    thread = threading.Thread(target=connect_repeatedly)
    thread.start()
    try:
        yield results
    finally:
        stopped.set()
        thread.join()


def workers(bough: Program) -> list[dict[str, int]]:
    result: list[dict[str, int]] = bough.status()["gateway_workers"]
    return result


def pids(bough: Program) -> list[int]:
    return [worker["pid"] for worker in workers(bough)]


def restarts(bough: Program) -> list[int]:
    return [worker["restarts"] for worker in workers(bough)]


def replaced(bough: Program, before: list[int]) -> list[int] | None:
    """The workers, once all are running and at least one is new."""
    current = pids(bough)
    return current if 0 not in current and current != before else None


def worker_of(bough: Program, connection: asyncpg.Connection) -> int:
    """The worker that serves the connection, found by its open socket."""
    address = connection._transport.get_extra_info("sockname")
    inode = next(
        fields[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if (fields := line.split())[2].endswith(f":{address[1]:04X}")
    )
    return next(
        pid
        for pid in pids(bough)
        if any(str(entry.readlink()) == f"socket:[{inode}]" for entry in Path(f"/proc/{pid}/fd").iterdir())
    )


async def test_clients_are_served_on_both_loopback_addresses(shared_bough: Program) -> None:
    port = shared_bough.status()["gateway_port"]
    assert request_tls(port) == b"S"
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        assert request_tls(port, "::1") == b"S"


def test_status_shows_the_workers(shared_bough: Program) -> None:
    status = shared_bough.status()
    assert [worker["restarts"] for worker in status["gateway_workers"]] == [0, 0]
    assert status["gateway_workers_draining"] == 0
    assert all(is_alive(pid) and os.getsid(pid) == pid for pid in pids(shared_bough))
    first, second = pids(shared_bough)
    assert f"pid {first}, pid {second}" in shared_bough("status").stdout
    log = shared_bough.home / "logs" / "gateway.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give the gateway a user of its own")
def test_workers_are_nobody_who_could_become_somebody(shared_bough: Program) -> None:
    gateway = pwd.getpwnam("bough-gateway")
    for pid in pids(shared_bough):
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        assert status["Uid"].split() == [str(gateway.pw_uid)] * 4
        assert status["Gid"].split() == [str(gateway.pw_gid)] * 4
        assert (status["Groups"].strip(), status["NoNewPrivs"].strip()) == ("", "1")
        assert {status[name].strip() for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
        variables = Path(f"/proc/{pid}/environ").read_text()
        assert "BOUGH_" not in variables, "a setting may contain a password"
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
        with steady_clients(bough.up_output["gateway_port"]) as results:
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
        refused = [each for each in results if isinstance(each, ConnectionRefusedError)]
        assert refused == [], "clients wait in the backlog"
        assert results[-1] == b"S"
    async with tenant.connected() as again:
        assert await again.fetchval("select 1") == 1


async def test_a_restart_refuses_nobody_and_open_connections_go_on(restarted: Program, tenant: Tenant) -> None:
    bough = restarted
    async with tenant.connected() as connection:
        await connection.execute("create temporary table mine as select 7 as n")
        before = pids(bough)
        with steady_clients(bough.up_output["gateway_port"]) as results:
            done = await asyncio.to_thread(bough, "restart")
            assert done.returncode == 0, done.stderr
        assert set(results) == {b"S"}
        assert len(results) > 5
        assert not set(before) & set(pids(bough))
        old = [pid for pid in before if is_alive(pid)]
        assert len(old) == 1
        assert bough.status()["gateway_workers_draining"] == 1
        assert await connection.fetchval("select n from mine") == 7

        assert (await asyncio.to_thread(bough, "restart")).returncode == 0
        assert await connection.fetchval("select n from mine") == 7, "across a second restart too"
    await asyncio.to_thread(wait_until, lambda: not is_alive(old[0]))
    await asyncio.to_thread(wait_until, lambda: bough.status()["gateway_workers_draining"] == 0)
    async with tenant.connected() as again:
        assert await again.fetchval("select 1") == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGQUIT, marks=pytest.mark.long)])
async def test_connections_outlive_a_supervisor_and_the_next_one_has_the_port(
    restarted: Program, tenant: Tenant, how: signal.Signals
) -> None:
    bough, before = restarted, restarted.up_output
    async with tenant.connected() as connection:
        await connection.execute("create temporary table mine as select 7 as n")
        supervisor, old = bough.supervisor_pid(), pids(bough)
        os.kill(supervisor, how)
        await asyncio.to_thread(wait_until, lambda: not is_alive(supervisor))
        assert await connection.fetchval("select n from mine") == 7
        again = await asyncio.to_thread(bough.up)
        assert again["gateway_port"] == before["gateway_port"]
        assert await connection.fetchval("select n from mine") == 7
        assert {request_tls(before["gateway_port"]) for _ in range(20)} == {b"S"}, "the old workers no longer listen"
        assert not set(old) & set(pids(bough))
    await asyncio.to_thread(wait_until, lambda: not any(is_alive(pid) for pid in old))


def _workers_of(bough: Program) -> list[int]:
    """The pids of all workers, including draining ones."""
    workers_found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"bough.gateway.launch" in command and os.fsencode(bough.home) in command:
            workers_found.append(int(entry.name))
    assert len(workers_found) > 3
    return workers_found


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
            assert {request_tls(port) for _ in range(20)} == {b"S"}
        assert bough.status()["gateway_workers_draining"] >= 1
        async with tenant.connected() as new:
            all_workers = _workers_of(bough)
            done = await asyncio.to_thread(bough, "down")
            assert done.returncode == 0, done.stderr
            assert [pid for pid in all_workers if is_alive(pid)] == []
            for connection in (old, older, new):
                with pytest.raises((asyncpg.AdminShutdownError, asyncpg.InterfaceError, OSError)):
                    await connection.fetchval("select 1")
    assert not (Settings(home=bough.home).sockets / "door" / ".s.PGSQL.5432").exists()
    with pytest.raises(ConnectionRefusedError):
        request_tls(port)
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
