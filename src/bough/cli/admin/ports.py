"""Which ports the platform gets, and that it keeps them.

A port that was asked for is that port or a refusal. Otherwise the first start takes the usual one,
or a free one when that is taken, and writes the choice into the home: the addresses people have
copied stay true at every later start.
"""

import errno
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings
from bough.errors import PlatformError, Taken, Unavailable

USUAL = {"api_port": 8432, "gateway_port": 5432}


@dataclass(frozen=True, slots=True)
class Ports:
    api_port: int
    gateway_port: int


def kept_file(settings: Settings) -> Path:
    return settings.home / "ports.json"


def kept(settings: Settings) -> dict[str, int]:
    """The ports chosen at the first start; empty before it."""
    try:
        values = json.loads(kept_file(settings).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Unavailable(f"{kept_file(settings)} cannot be read: {error}.") from None
    return {name: int(values[name]) for name in USUAL if name in values}


def resolve(settings: Settings) -> Ports:
    """The ports to use now, free at this moment. Choices are kept."""
    before = kept(settings)
    chosen = dict(before)
    ports: dict[str, int] = {}
    settled = {getattr(settings, name) or before.get(name) for name in USUAL}
    for name in USUAL:
        ports[name] = _asked_or_kept(settings, name, before) or _choose(settings, name, settled)
        if getattr(settings, name) is None:
            chosen[name] = ports[name]
    _refuse_twins(ports)
    if chosen != before:
        _keep(settings, chosen)
    return Ports(**ports)


def problem(settings: Settings) -> PlatformError | None:
    """What `resolve` would refuse, without choosing anything."""
    try:
        before = kept(settings)
        _refuse_twins({name: getattr(settings, name) or before.get(name) for name in USUAL})
        for name in USUAL:
            _asked_or_kept(settings, name, before)
    except PlatformError as error:
        return error
    return None


def plan(settings: Settings) -> str:
    """The ports the next start would use, in words."""
    before = kept(settings)
    words = []
    for name, usual in USUAL.items():
        port = getattr(settings, name) or before.get(name)
        free = port or (usual if _bind_error(settings.listen, usual) is None else None)
        words.append(str(free) if free else f"a free one instead of {usual}")
    return " and ".join(words)


def _asked_or_kept(settings: Settings, name: str, before: dict[str, int]) -> int | None:
    asked: int | None = getattr(settings, name)
    port = asked or before.get(name)
    if port is None:
        return None
    _require_free(settings.listen, port, name, "asked for" if asked else "kept since the first start")
    return port


def _require_free(listen: str, port: int, name: str, why: str) -> None:
    error = _bind_error(listen, port)
    if error is None:
        return
    flag = f"--{name.replace('_', '-')}"
    if error.errno == errno.EADDRINUSE:
        raise Taken(f"Port {port} ({why}) is taken by another program; stop that, or give another port with {flag} N.")
    if error.errno in {errno.EACCES, errno.EPERM}:
        raise Unavailable(f"Port {port} ({why}) needs root; give a port above 1023 with {flag} N.")
    raise Unavailable(f"The address {listen} cannot be listened on: {error.strerror}; mend the setting 'listen'.")


def reserve(listen: str, port: int) -> socket.socket:
    """Hold a port on which nothing listens yet, so that no other home takes it for its own."""
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.bind((listen, port))
    except OSError as error:
        held.close()
        raise Unavailable(f"Port {port} cannot be held: {error.strerror}.") from None
    return held


def _bind_error(listen: str, port: int) -> OSError | None:
    """Why nothing can listen there now; None when it can."""
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def _choose(settings: Settings, name: str, used: set[int | None]) -> int:
    if USUAL[name] not in used and _bind_error(settings.listen, USUAL[name]) is None:
        return USUAL[name]
    for port in range(USUAL[name] + 10_000, USUAL[name] + 20_000):
        if port not in used and _bind_error(settings.listen, port) is None:
            return port
    raise Unavailable(f"No free port was found on {settings.listen}.")


def _refuse_twins(ports: Mapping[str, int | None]) -> None:
    if ports["api_port"] is not None and ports["api_port"] == ports["gateway_port"]:
        raise Taken(f"The API and Postgres clients cannot share port {ports['api_port']}; give two different ports.")


def _keep(settings: Settings, chosen: dict[str, int]) -> None:
    new = kept_file(settings).with_suffix(".new")
    new.write_text(json.dumps(chosen) + "\n")
    new.replace(kept_file(settings))
