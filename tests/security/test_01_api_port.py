"""Row 1: another user of the machine cannot take the API's port, nor be handed the operator's key."""

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


def seen(bough: Program) -> state.SupervisorState:
    found = state.read_running(Settings(home=bough.home))
    assert found is not None
    return found


def test_the_port_is_never_free_while_control_dies_and_returns(bough: Program, folder: Path) -> None:
    control = bough.status()["control_pid"]
    with start_squatter(folder, api_port(bough), *LOOPBACKS) as squatter:
        for how in (signal.SIGKILL, signal.SIGTERM):
            os.kill(control, how)
            assert get_status_code(bough.up_output, "/projects") == 200, "a request waits until control is there again"
            control = bough.wait_for_restart(control)["control_pid"]
        tries = squatter.stop()
        assert not squatter.has_port()
    assert tries > 100, "it tried all along"


def test_the_port_is_never_free_while_the_platform_restarts(bough: Program, folder: Path) -> None:
    before = seen(bough)
    with start_squatter(folder, api_port(bough), *LOOPBACKS) as squatter:
        assert bough("restart").returncode == 0
        assert squatter.stop() > 100
        assert not squatter.has_port()
    assert seen(bough).api_inodes == before.api_inodes, "the same socket, passed on"
    assert get_status_code(bough.up_output, "/projects") == 200


def test_another_loopback_address_of_the_port_is_held_too(bough: Program) -> None:
    request = urllib.request.Request(f"http://[::1]:{api_port(bough)}/healthz")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_after_the_supervisor_was_killed_our_commands_keep_the_key_to_themselves(bough: Program, folder: Path) -> None:
    settings = Settings(home=bough.home)
    control = bough.status()["control_pid"]
    os.kill(bough.supervisor_pid(), signal.SIGKILL)
    wait_until(lambda: not is_alive(control) or None)
    with start_squatter(folder, api_port(bough), "127.0.0.1") as squatter:
        wait_until_bound(squatter)
        for command in (["psql"], ["admin", "user", "list"], ["admin", "audit"]):
            done = bough.run(*command, "--home", str(bough.home))
            assert done.returncode == 1
            assert "Bough is not running in" in done.stderr
        refused = bough("up", "--detach", *bough.port_arguments())
        assert refused.returncode == 1
        assert f"Another program uses port {api_port(bough)} (requested); stop it" in refused.stderr
        # Even while somebody holds the home's lock and the state says that the platform runs.
        held = lock.acquire(lock.supervisor_lock_file(settings))
        assert held is not None
        last = state.read_last(settings)
        assert last is not None
        state.write(settings, replace(last, pid=os.getpid()))
        done = bough.run("admin", "user", "list", "--home", str(bough.home))
        assert done.returncode == 1
        assert "the operator's key was not sent" in done.stderr
        lock.release(held)
        squatter.stop()
        assert bough.up_output["api_key"] not in squatter.output
        assert "Bearer" not in squatter.output
    bough.up()
    assert get_status_code(bough.up_output, "/projects") == 200


def test_the_key_goes_only_to_the_socket_that_the_supervisor_told_of() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as other,
        closing(socket.create_server(("127.0.0.1", 0))) as ours,
    ):
        inode = api_listeners.read_inodes([ours])
        port = other.getsockname()[1]
        with pytest.raises(Unavailable, match="Another program listens at"):
            api_client.get(ApiAddress("127.0.0.1", port, inode), "secret", "/projects")
        with pytest.raises(PreconditionFailed, match="bough restart"):
            api_client.get(ApiAddress("127.0.0.1", port), "secret", "/projects")
        for _ in range(2):
            with other.accept()[0] as caller:
                assert caller.recv(100) == b"", "not a byte was sent"


def test_a_change_of_address_or_port_keeps_what_fits(folder: Path) -> None:
    settings, port = Settings(home=folder), find_free_port()
    first = api_listeners.open_listeners(settings, port)
    left = [os.dup(listener.fileno()) for listener in first]
    for listener in first:
        listener.close()
    everywhere = settings.model_copy(update={"listen": "0.0.0.0"})
    second = api_listeners.open_listeners(everywhere, port, left)
    assert [listener.getsockname() for listener in second] == [("0.0.0.0", port)]
    left = [os.dup(listener.fileno()) for listener in second]
    third = api_listeners.open_listeners(everywhere, find_free_port(), left)
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
