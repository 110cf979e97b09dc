"""Rule 1: another user of the machine can neither take the API port nor receive the operator's key."""

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bough.cli import api_client
from bough.config import Settings
from bough.errors import PreconditionFailed, Unavailable
from bough.supervisor import api_listeners, lock, state
from bough.supervisor.addresses import ApiAddress
from bough.supervisor.handoff import SupervisorHandoff
from security.port_squatter import start_squatter, wait_until_bound
from support.platform import temporary_folder
from support.program import ONE_WORKER, Program, find_free_port, get_status_code, is_alive, wait_until
from support.requirements import require_root

LOOPBACKS = ("127.0.0.1", "::1", "0.0.0.0")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with temporary_folder(0o755) as path:
        yield path


@pytest.fixture(scope="module")
def bough(folder: Path) -> Iterator[Program]:
    require_root()
    program = Program(folder / "home", ONE_WORKER)
    try:
        program.up()
        yield program
    finally:
        program.clean_up()


def api_port(bough: Program) -> int:
    return int(bough.port_arguments()[1])


def read_state(bough: Program) -> state.SupervisorState:
    running = state.read_running(Settings(home=bough.home))
    assert running is not None
    return running


def test_the_port_is_never_free_while_control_dies_and_returns(bough: Program, folder: Path) -> None:
    control = bough.status()["control_pid"]
    with start_squatter(folder, api_port(bough), *LOOPBACKS) as squatter:
        for signal_number in (signal.SIGKILL, signal.SIGTERM):
            os.kill(control, signal_number)
            assert get_status_code(bough.up_output, "/projects") == 200, "requests wait until control has restarted"
            control = bough.wait_for_restart(control)["control_pid"]
        tries = squatter.stop()
        assert not squatter.has_port()
    assert tries > 100, "the squatter made too few attempts"


def test_the_port_is_never_free_while_the_platform_restarts(bough: Program, folder: Path) -> None:
    before = read_state(bough)
    with start_squatter(folder, api_port(bough), *LOOPBACKS) as squatter:
        assert bough("restart").returncode == 0
        assert squatter.stop() > 100
        assert not squatter.has_port()
    assert read_state(bough).api_inodes == before.api_inodes, "the restart replaced the listening socket"
    assert get_status_code(bough.up_output, "/projects") == 200


def test_another_loopback_address_of_the_port_is_held_too(bough: Program) -> None:
    request = urllib.request.Request(f"http://[::1]:{api_port(bough)}/healthz")
    with urllib.request.urlopen(request) as response:
        assert response.status == 200


def test_after_the_supervisor_was_killed_our_commands_keep_the_key_to_themselves(bough: Program, folder: Path) -> None:
    settings = Settings(home=bough.home)
    control = bough.status()["control_pid"]
    os.kill(bough.supervisor_pid(), signal.SIGKILL)
    wait_until(lambda: not is_alive(control) or None)
    with start_squatter(folder, api_port(bough), "127.0.0.1") as squatter:
        wait_until_bound(squatter)
        for command in (["psql"], ["admin", "user", "list"], ["admin", "audit"]):
            result = bough.run(*command, "--home", str(bough.home))
            assert result.returncode == 1
            assert "Bough is not running in" in result.stderr
        up_result = bough("up", "--detach", *bough.port_arguments())
        assert up_result.returncode == 1
        assert f"Another program uses port {api_port(bough)} (requested); stop it" in up_result.stderr
        # The same holds while another process has the home's lock and the state file says that the platform runs.
        home_lock = lock.acquire(lock.supervisor_lock_file(settings))
        assert home_lock is not None
        last = state.read_last(settings)
        assert last is not None
        state.write(settings, replace(last, pid=os.getpid()))
        result = bough.run("admin", "user", "list", "--home", str(bough.home))
        assert result.returncode == 1
        assert "the operator's key was not sent" in result.stderr
        lock.release(home_lock)
        squatter.stop()
        assert bough.up_output["api_key"] not in squatter.output
        assert "Bearer" not in squatter.output
    bough.up()
    assert get_status_code(bough.up_output, "/projects") == 200


def test_the_key_goes_only_to_the_socket_that_the_supervisor_told_of() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as other_listener,
        closing(socket.create_server(("127.0.0.1", 0))) as supervisor_listener,
    ):
        inode = api_listeners.read_inodes([supervisor_listener])
        port = other_listener.getsockname()[1]
        with pytest.raises(Unavailable, match="Another program listens at"):
            api_client.get(ApiAddress("127.0.0.1", port, inode), "secret", "/projects")
        with pytest.raises(PreconditionFailed, match="bough restart"):
            api_client.get(ApiAddress("127.0.0.1", port), "secret", "/projects")
        for _ in range(2):
            with other_listener.accept()[0] as caller:
                assert caller.recv(100) == b"", "bytes were sent to another program"


def test_a_change_of_address_or_port_keeps_what_fits(folder: Path) -> None:
    settings, port = Settings(home=folder), find_free_port()
    first = api_listeners.open_listeners(settings, port)
    inherited_fds = [os.dup(listener.fileno()) for listener in first]
    for listener in first:
        listener.close()
    all_addresses = settings.model_copy(update={"listen": "0.0.0.0"})
    second = api_listeners.open_listeners(all_addresses, port, inherited_fds)
    assert [listener.getsockname() for listener in second] == [("0.0.0.0", port)]
    inherited_fds = [os.dup(listener.fileno()) for listener in second]
    third = api_listeners.open_listeners(all_addresses, find_free_port(), inherited_fds)
    assert third[0].getsockname() != second[0].getsockname()
    for listener in (*second, *third):
        listener.close()


def test_a_supervisor_of_an_earlier_version_left_no_listener_of_the_api() -> None:
    read, write = os.pipe()
    text = json.dumps({"alive_end": read, "our_end": write, "listeners": [], "door": write, "workers": [7]})
    assert SupervisorHandoff.from_json(text) == SupervisorHandoff(
        alive_fd=read,
        supervisor_fd=write,
        listener_fds=(),
        local_socket_fd=write,
        worker_pids=(7,),
        api_listener_fds=(),
    )
    os.close(read)
    os.close(write)
