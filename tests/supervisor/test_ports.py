"""A requested port is used or rejected; a chosen port is kept."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bough.config import Settings
from bough.errors import Conflict, PlatformError
from bough.supervisor import ports
from support.program import find_free_port


@contextmanager
def in_use(port: int) -> Iterator[None]:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen(1)
        yield


@pytest.fixture
def default_ports(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Default ports that no other program on this machine uses."""
    free = {"api_port": find_free_port(), "gateway_port": find_free_port()}
    monkeypatch.setattr(ports, "DEFAULT_PORTS", free)
    return free


def test_the_usual_ports_are_taken_and_kept(folder: Path, default_ports: dict[str, int]) -> None:
    settings = Settings(home=folder)
    assert ports.resolve(settings) == ports.Ports(**default_ports)
    assert json.loads((folder / "ports.json").read_text()) == default_ports


def test_the_first_start_avoids_a_taken_port_and_keeps_its_choice(folder: Path, default_ports: dict[str, int]) -> None:
    settings = Settings(home=folder)
    with in_use(default_ports["api_port"]):
        chosen = ports.resolve(settings)
    assert chosen.api_port != default_ports["api_port"]
    assert chosen.gateway_port == default_ports["gateway_port"]
    assert ports.resolve(settings) == chosen, "the default port is free again, but the choice stays"


def test_a_kept_port_that_is_taken_is_refused(folder: Path, default_ports: dict[str, int]) -> None:
    settings = Settings(home=folder)
    ports.resolve(settings)
    with (
        in_use(default_ports["gateway_port"]),
        pytest.raises(Conflict, match=r"chosen at the first start.*--gateway-port N"),
    ):
        ports.resolve(settings)


def test_a_port_asked_for_is_not_kept(folder: Path, default_ports: dict[str, int]) -> None:
    requested = find_free_port()
    assert ports.resolve(Settings(home=folder, api_port=requested)).api_port == requested
    assert ports.resolve(Settings(home=folder)).api_port == default_ports["api_port"]


def test_a_taken_port_asked_for_is_refused(folder: Path, default_ports: dict[str, int]) -> None:
    requested = find_free_port()
    settings = Settings(home=folder, api_port=requested)
    with in_use(requested), pytest.raises(Conflict, match=rf"Another program uses port {requested} \(requested\)"):
        ports.resolve(settings)
    assert not (folder / "ports.json").exists(), "a rejected start chooses nothing"


def test_one_port_cannot_serve_both(folder: Path) -> None:
    requested = find_free_port()
    with pytest.raises(Conflict, match="cannot share"):
        ports.resolve(Settings(home=folder, api_port=requested, gateway_port=requested))


def test_an_address_that_is_not_ours_is_refused(folder: Path) -> None:
    with pytest.raises(PlatformError, match=r"Cannot listen on the address 192\.0\.2\.1.*'listen'"):
        ports.resolve(Settings(home=folder, listen="192.0.2.1", api_port=find_free_port()))


def test_a_port_that_only_one_loopback_address_has_left_is_taken(folder: Path, default_ports: dict[str, int]) -> None:
    """A client uses whichever address its resolver returns first."""
    settings = Settings(home=folder)
    if len(ports.listen_addresses(settings)) == 1:
        pytest.skip("this machine has no IPv6")
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", default_ports["gateway_port"]))
        other.listen(1)
        assert ports.resolve(settings).gateway_port != default_ports["gateway_port"]
    assert isinstance(ports.resolve(settings).gateway_port, int)


def test_only_the_gateway_listens_on_the_other_loopback_address(folder: Path) -> None:
    assert ports.listen_addresses(Settings(home=folder))[0] == "127.0.0.1"
    for listen in ("0.0.0.0", "::", "10.0.0.1"):
        assert ports.listen_addresses(Settings(home=folder, listen=listen)) == [listen]
