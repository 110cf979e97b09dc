"""The gateway's listening sockets: shared by all workers, kept across restarts, never shared with another home."""

import multiprocessing
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.config import Settings
from bough.errors import Conflict, Unavailable
from bough.supervisor import gateway_listeners, gateway_user, ports
from bough.supervisor.gateway_listeners import GatewayListeners
from support.program import find_free_port


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(home=folder / "home", gateway_port=find_free_port(), gateway_workers=2)


def port_of(settings: Settings) -> int:
    assert settings.gateway_port is not None
    return settings.gateway_port


@pytest.fixture
def opened(settings: Settings) -> Iterator[GatewayListeners]:
    settings.home.mkdir()
    created = gateway_listeners.open_listeners(settings, port_of(settings))
    yield created
    created.close()


def descriptors(opened: GatewayListeners) -> list[int]:
    """Duplicates of the descriptors, as the next program inherits them."""
    return [os.dup(listener.fileno()) for listener in opened.tcp]


def test_there_is_one_on_every_address(settings: Settings, opened: GatewayListeners) -> None:
    assert [listener.getsockname()[0] for listener in opened.tcp] == ports.listen_addresses(settings)
    assert {listener.getsockname()[1] for listener in opened.tcp} == {port_of(settings)}


def test_without_a_setting_there_is_a_worker_a_core(folder: Path) -> None:
    assert gateway_user.count_workers(Settings(home=folder)) == len(os.sched_getaffinity(0))


def test_clients_wait_while_nobody_accepts(settings: Settings, opened: GatewayListeners) -> None:
    clients = [socket.create_connection(("127.0.0.1", port_of(settings)), timeout=5) for _ in range(50)]
    for client in clients:
        opened.tcp[0].accept()[0].close()
        client.close()
    with pytest.raises(BlockingIOError):
        opened.tcp[0].accept()


def test_the_port_is_taken_for_another_home(settings: Settings, opened: GatewayListeners, folder: Path) -> None:
    other = Settings(home=folder / "other", gateway_port=port_of(settings))
    assert isinstance(ports.find_error(other), Conflict)
    with pytest.raises(Unavailable, match=r"Cannot listen on port \d+: Address already in use"):
        gateway_listeners.open_listeners(other, port_of(settings))
    opened.close()
    assert ports.find_error(other) is None


def _try_to_open(home: Path, port: int, results: "multiprocessing.SimpleQueue[bool]", wait_fd: int) -> None:
    settings = Settings(home=home, gateway_workers=2)
    try:
        opened = gateway_listeners.open_listeners(settings, port)
    except Unavailable:
        results.put(False)
        return
    results.put(True)
    os.read(wait_fd, 1)
    opened.close()
    shutil.rmtree(settings.sockets)


def test_of_homes_that_start_at_once_one_gets_the_port(folder: Path) -> None:
    """With SO_REUSEPORT alone, the kernel would let all of them bind it."""
    context = multiprocessing.get_context("fork")
    port, results = find_free_port(), context.SimpleQueue()
    wait_fd, release_fd = os.pipe()
    homes = [
        context.Process(target=_try_to_open, args=(folder / str(number), port, results, wait_fd)) for number in range(6)
    ]
    for home in homes:
        home.start()
    assert sorted(results.get() for _ in homes) == [False] * 5 + [True]
    os.write(release_fd, b"x" * len(homes))
    for home in homes:
        home.join()
    os.close(wait_fd)
    os.close(release_fd)


def test_the_next_program_keeps_what_it_inherits(settings: Settings, opened: GatewayListeners) -> None:
    client = socket.create_connection(("127.0.0.1", port_of(settings)), timeout=5)
    inherited, local_fd = descriptors(opened), os.dup(opened.local.fileno())
    opened.close()
    assert ports.resolve(settings, gateway_listeners.read_ports(inherited)).gateway_port == port_of(settings)
    again = gateway_listeners.open_listeners(settings, port_of(settings), inherited, local_fd)
    assert {listener.fileno() for listener in again.tcp} == set(inherited)
    assert again.local.fileno() == local_fd
    again.tcp[0].accept()[0].close()  # a client that connected before the change is served after it
    client.close()
    again.close()


def test_the_next_program_may_want_another_port(settings: Settings, opened: GatewayListeners) -> None:
    other_port = find_free_port()
    moved = gateway_listeners.open_listeners(settings, other_port, descriptors(opened))
    assert {listener.getsockname()[1] for listener in moved.tcp} == {other_port}
    moved.close()


def test_another_address_may_be_wanted_while_old_workers_still_listen(
    settings: Settings, opened: GatewayListeners
) -> None:
    everywhere = settings.model_copy(update={"listen": "0.0.0.0"})
    on_all = gateway_listeners.open_listeners(everywhere, port_of(settings), descriptors(opened))
    assert {listener.getsockname()[0] for listener in on_all.tcp} == {"0.0.0.0"}
    on_all.close()
    named = settings.model_copy(update={"listen": "localhost"})
    inherited = descriptors(opened)
    by_name = gateway_listeners.open_listeners(named, port_of(settings), inherited)
    assert {listener.fileno() for listener in by_name.tcp} < set(inherited), "the same address by another name"
    by_name.close()


def test_the_door_is_a_socket_of_its_owner_alone(settings: Settings, opened: GatewayListeners) -> None:
    folder = gateway_listeners.local_socket_folder(settings)
    path = folder / ".s.PGSQL.5432"
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (folder, path)]
    assert modes == [0o700, 0o600]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    gateway_listeners.remove_local_socket(settings)
    assert not path.exists()


def test_a_door_that_a_killed_platform_left_is_replaced(settings: Settings, opened: GatewayListeners) -> None:
    opened.close()
    again = gateway_listeners.open_listeners(settings, port_of(settings))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(again.local.getsockname())
    again.close()
