"""Chooses the platform's ports and keeps the choice.

A port that the operator names is used or the start fails. Otherwise the first start takes the default port, or a
free one when another program uses it, and saves the choice in the home, so that addresses which people have copied
remain valid.
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
RELEASE_TIMEOUT = 5.0  # seconds that the processes of a killed platform have to release its ports
PORT_LOCK_TIMEOUT = 2.0  # seconds that another home has to finish binding the same port


@dataclass(frozen=True, slots=True)
class Ports:
    api_port: int
    gateway_port: int


def ports_file(settings: Settings) -> Path:
    return settings.home / "ports.json"


def load_ports(settings: Settings) -> dict[str, int]:
    """Return the ports chosen at the first start; empty before it."""
    try:
        values = json.loads(ports_file(settings).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Unavailable(f"{ports_file(settings)} cannot be read: {error}.") from None
    return {name: int(values[name]) for name in DEFAULT_PORTS if name in values}


def resolve(settings: Settings, already_bound: Collection[int] = ()) -> Ports:
    """Return the ports to use now, which are free or already bound by us, and save new choices."""
    saved = load_ports(settings)
    to_save = dict(saved)
    ports: dict[str, int] = {}
    fixed = {getattr(settings, name) or saved.get(name) for name in DEFAULT_PORTS}
    for name in DEFAULT_PORTS:
        ports[name] = _requested_or_saved(settings, name, saved, already_bound) or _choose(settings, name, fixed)
        if getattr(settings, name) is None:
            to_save[name] = ports[name]
    _check_distinct(ports)
    if to_save != saved:
        _save_ports(settings, to_save)
    return Ports(**ports)


def find_error(settings: Settings) -> PlatformError | None:
    """Return the error that `resolve` would raise, found without choosing a port."""
    try:
        saved = load_ports(settings)
        _check_distinct({name: getattr(settings, name) or saved.get(name) for name in DEFAULT_PORTS})
        for name in DEFAULT_PORTS:
            _requested_or_saved(settings, name, saved)
    except PlatformError as error:
        return error
    return None


def describe_next_ports(settings: Settings) -> str:
    """Return the ports that the next start would use, in words."""
    saved = load_ports(settings)
    descriptions = []
    for name, default in DEFAULT_PORTS.items():
        port = getattr(settings, name) or saved.get(name)
        free = port or (default if _is_free(settings, name, default) else None)
        descriptions.append(str(free) if free else f"a free port instead of {default}")
    return " and ".join(descriptions)


def listen_addresses(settings: Settings) -> list[str]:
    """Return the addresses to listen on: host names under localhost may resolve to either loopback address."""
    if settings.listen == "127.0.0.1" and _bind_error("::1", 0) is None:
        return [settings.listen, "::1"]
    return [settings.listen]


@contextmanager
def lock_port(port: int) -> Iterator[None]:
    """Lock a port against the other homes of this user.

    SO_REUSEPORT would let two of them bind the same port. The lock is an abstract Unix socket: it is visible in the
    same network namespace as the port and disappears with its process.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        deadline = clock.monotonic() + PORT_LOCK_TIMEOUT
        while True:
            try:
                lock.bind(f"\0bough-port-{os.geteuid()}-{port}")
            except OSError:
                if clock.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                break
        yield


def check_free(address: str, port: int) -> None:
    """Raise the kernel's error when another socket listens there."""
    error = _bind_error(address, port)
    if error is not None:
        raise error


def _requested_or_saved(
    settings: Settings, name: str, saved: dict[str, int], already_bound: Collection[int] = ()
) -> int | None:
    requested: int | None = getattr(settings, name)
    port = requested or saved.get(name)
    if port is not None and port not in already_bound:
        _require_free(settings, port, name, "requested" if requested else "chosen at the first start")
    return port


def _require_free(settings: Settings, port: int, name: str, origin: str) -> None:
    for address in _addresses(settings, name):
        error = _lasting_error(settings, address, port)
        if error is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"Another program uses port {port} ({origin}); stop it, or choose another port with {flag} N."
            )
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise Unavailable(f"Port {port} ({origin}) needs root; choose a port above 1023 with {flag} N.")
        raise Unavailable(f"Cannot listen on the address {address}: {error.strerror}; correct the setting 'listen'.")


def _lasting_error(settings: Settings, address: str, port: int) -> OSError | None:
    """Return the bind error that remains after the processes of a killed platform had time to exit."""
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
    """Return why we cannot listen there now; None when we can."""
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
    raise Unavailable(f"No port is free on {settings.listen}.")


def _check_distinct(ports: Mapping[str, int | None]) -> None:
    if ports["api_port"] is not None and ports["api_port"] == ports["gateway_port"]:
        raise Conflict(f"The API and Postgres clients cannot share port {ports['api_port']}; choose two ports.")


def _save_ports(settings: Settings, ports: dict[str, int]) -> None:
    new = ports_file(settings).with_suffix(".new")
    new.write_text(json.dumps(ports) + "\n")
    new.replace(ports_file(settings))
