"""Which ports the platform gets, and that it keeps them.

A port that was asked for is that port or a refusal. Otherwise the first start takes the usual one,
or a free one when that is taken, and writes the choice into the home: the addresses people have
copied stay true at every later start.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bough import clock
from bough.config import Settings
from bough.errors import Conflict, PlatformError, Unavailable
from bough.supervisor import state

DEFAULT_PORTS = {"api_port": 8432, "gateway_port": 5432}
RELEASE_TIMEOUT = 5.0  # seconds in which processes of a platform that was killed let go of its ports
PORT_LOCK_TIMEOUT = 2.0  # seconds for another home to finish binding the same port


@dataclass(frozen=True, slots=True)
class Ports:
    api_port: int
    gateway_port: int


def ports_file(settings: Settings) -> Path:
    return settings.home / "ports.json"


def load_ports(settings: Settings) -> dict[str, int]:
    """The ports chosen at the first start; empty before it."""
    try:
        values = json.loads(ports_file(settings).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Unavailable(f"{ports_file(settings)} cannot be read: {error}.") from None
    return {name: int(values[name]) for name in DEFAULT_PORTS if name in values}


def resolve(settings: Settings, already_bound: Collection[int] = ()) -> Ports:
    """The ports to use now, free at this moment or held by us. Choices are kept."""
    before = load_ports(settings)
    chosen = dict(before)
    ports: dict[str, int] = {}
    settled = {getattr(settings, name) or before.get(name) for name in DEFAULT_PORTS}
    for name in DEFAULT_PORTS:
        ports[name] = _requested_or_saved(settings, name, before, already_bound) or _choose(settings, name, settled)
        if getattr(settings, name) is None:
            chosen[name] = ports[name]
    _check_distinct(ports)
    if chosen != before:
        _save_ports(settings, chosen)
    return Ports(**ports)


def find_error(settings: Settings) -> PlatformError | None:
    """What `resolve` would refuse, without choosing anything."""
    try:
        before = load_ports(settings)
        _check_distinct({name: getattr(settings, name) or before.get(name) for name in DEFAULT_PORTS})
        for name in DEFAULT_PORTS:
            _requested_or_saved(settings, name, before)
    except PlatformError as error:
        return error
    return None


def describe_next_ports(settings: Settings) -> str:
    """The ports the next start would use, in words."""
    before = load_ports(settings)
    words = []
    for name, usual in DEFAULT_PORTS.items():
        port = getattr(settings, name) or before.get(name)
        free = port or (usual if _is_free(settings, name, usual) else None)
        words.append(str(free) if free else f"a free one instead of {usual}")
    return " and ".join(words)


def listen_addresses(settings: Settings) -> list[str]:
    """Where Postgres clients are awaited: hosts under localhost may resolve to either loopback address."""
    if settings.listen == "127.0.0.1" and _bind_error("::1", 0) is None:
        return [settings.listen, "::1"]
    return [settings.listen]


@contextmanager
def lock_port(port: int) -> Iterator[None]:
    """While a port is looked at and bound with SO_REUSEPORT, which lets homes of one user share it unawares.

    A name without a file is the lock: it is as wide as the port, and goes with its process.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as turn:
        deadline = clock.monotonic() + PORT_LOCK_TIMEOUT
        while True:
            try:
                turn.bind(f"\0bough-port-{os.geteuid()}-{port}")
            except OSError:
                if clock.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                break
        yield


def check_free(address: str, port: int) -> None:
    """Raises what the kernel says when somebody listens there."""
    error = _bind_error(address, port)
    if error is not None:
        raise error


def _requested_or_saved(
    settings: Settings, name: str, before: dict[str, int], held: Collection[int] = ()
) -> int | None:
    asked: int | None = getattr(settings, name)
    port = asked or before.get(name)
    if port is not None and port not in held:
        _require_free(settings, port, name, "asked for" if asked else "kept since the first start")
    return port


def _require_free(settings: Settings, port: int, name: str, why: str) -> None:
    for address in _addresses(settings, name):
        error = _lasting_error(settings, address, port)
        if error is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"Port {port} ({why}) is taken by another program; stop that, or give another port with {flag} N."
            )
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise Unavailable(f"Port {port} ({why}) needs root; give a port above 1023 with {flag} N.")
        raise Unavailable(f"The address {address} cannot be listened on: {error.strerror}; mend the setting 'listen'.")


def _lasting_error(settings: Settings, address: str, port: int) -> OSError | None:
    """What is left of a platform that was killed ends by itself, and is waited for."""
    error = _bind_error(address, port)
    deadline = clock.monotonic() + (RELEASE_TIMEOUT if error and state.was_killed(settings) else 0)
    while error is not None and error.errno == errno.EADDRINUSE and clock.monotonic() < deadline:
        time.sleep(0.05)
        error = _bind_error(address, port)
    return error


def _addresses(settings: Settings, name: str) -> list[str]:
    return listen_addresses(settings) if name == "gateway_port" else [settings.listen]


def _is_free(settings: Settings, name: str, port: int) -> bool:
    return all(_bind_error(address, port) is None for address in _addresses(settings, name))


def _bind_error(address: str, port: int) -> OSError | None:
    """Why nothing can listen there now; None when it can."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            probe.listen(1)
    except OSError as error:
        return error
    return None


def _choose(settings: Settings, name: str, used: set[int | None]) -> int:
    if DEFAULT_PORTS[name] not in used and _is_free(settings, name, DEFAULT_PORTS[name]):
        return DEFAULT_PORTS[name]
    for port in range(DEFAULT_PORTS[name] + 10_000, DEFAULT_PORTS[name] + 20_000):
        if port not in used and _is_free(settings, name, port):
            return port
    raise Unavailable(f"No free port was found on {settings.listen}.")


def _check_distinct(ports: Mapping[str, int | None]) -> None:
    if ports["api_port"] is not None and ports["api_port"] == ports["gateway_port"]:
        raise Conflict(f"The API and Postgres clients cannot share port {ports['api_port']}; give two different ports.")


def _save_ports(settings: Settings, chosen: dict[str, int]) -> None:
    new = ports_file(settings).with_suffix(".new")
    new.write_text(json.dumps(chosen) + "\n")
    new.replace(ports_file(settings))
