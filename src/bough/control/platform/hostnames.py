"""Endpoint hosts that every program on this machine can look up.

Hosts under `localhost` resolve by themselves where the machine's resolver knows that all of them are
this machine (systemd's does; plain glibc does not). Elsewhere they are kept in the file of hosts, if
that may be written, from before the answer that names them until their endpoint is gone.
"""

import asyncio
import ipaddress
import os
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bough import clock, hosts_file, log
from bough.config import Settings
from bough.domain.endpoint import EndpointHosts
from bough.ids import EndpointId

RECHECK_SECONDS = 3600.0  # seconds until we ask anew whether hosts resolve by themselves
RESOLVER_TIMEOUT = 1.0  # seconds for the resolver, which may ask servers that are away

LiveEndpoints = Sequence[tuple[EndpointId, str]]  # endpoints, each with its region

logger = log.get_logger(component="hostnames")


class Hostnames:
    def __init__(self, settings: Settings, hosts: EndpointHosts) -> None:
        self._settings = settings
        self._hosts = hosts
        self._needed: Path | None = None
        self._looked_at: float | None = None
        self._looking = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def publish(self, endpoint: EndpointId, region_id: str) -> None:
        """Before anybody is told of the host. What cannot be written is no reason to fail."""
        file = await self._file()
        if file is not None:
            line = self._line(endpoint, region_id)
            async with self._writing:
                await self._write(lambda: hosts_file.add_line(file, _owner(self._settings), line))

    async def sync(self, read_live: Callable[[], Awaitable[LiveEndpoints]]) -> bool:
        """Exactly those of the live endpoints, each with its region; whether something changed.

        They are read where nobody is announced: one between reading and writing would be lost.
        """
        file = await self._file()
        if file is None:
            return await asyncio.to_thread(remove_all, self._settings)
        async with self._writing:
            lines = [self._line(endpoint, region_id) for endpoint, region_id in await read_live()]
            return await self._write(lambda: hosts_file.write_lines(file, _owner(self._settings), lines))

    async def _file(self) -> Path | None:
        """Where hosts are to be written; None when they need not or cannot be."""
        async with self._looking:
            if self._looked_at is None or clock.monotonic() - self._looked_at > RECHECK_SECONDS:
                self._needed = await asyncio.to_thread(find_hosts_file, self._settings)
                self._looked_at = clock.monotonic()
        return self._needed

    async def _write(self, change: Callable[[], bool]) -> bool:
        try:
            return await asyncio.to_thread(change)
        except OSError as error:
            logger.error("hosts_not_written", path=str(self._settings.hosts_file), reason=error.strerror)
            return False

    def _line(self, endpoint: EndpointId, region_id: str) -> str:
        direct, pooled = self._hosts.direct_host(endpoint, region_id), self._hosts.pooled_host(endpoint, region_id)
        return f"{_address(self._settings.listen)} {_bare(direct)} {_bare(pooled)}"


def find_hosts_file(settings: Settings) -> Path | None:
    """The file of hosts, if hosts do not resolve without it and it may be written."""
    file = settings.hosts_file
    if file is None or not is_local(settings.domain) or not os.access(file, os.W_OK):
        return None
    return None if resolve_without_file(settings) else file


def are_unresolvable(settings: Settings) -> bool:
    """Whether hosts lead nowhere: they do not resolve, and cannot be written."""
    return is_local(settings.domain) and find_hosts_file(settings) is None and not resolve_without_file(settings)


def remove_all(settings: Settings) -> bool:
    """Nothing of ours is in the file of hosts any more."""
    file = settings.hosts_file
    if file is None or not os.access(file, os.W_OK):
        return False
    try:
        return hosts_file.write_lines(file, _owner(settings), [])
    except OSError as error:
        logger.error("hosts_not_written", path=str(file), reason=error.strerror)
        return False


def is_local(domain: str) -> bool:
    return domain == "localhost" or domain.endswith(".localhost")


def resolve_without_file(settings: Settings) -> bool:
    """Whether a host that nobody has written anywhere leads to this machine."""
    region = settings.regions[0]
    host = f"ep-{secrets.token_hex(6)}.{region.place}.{region.cloud}.{settings.domain}"
    found: list[str] = []
    # A thread of its own that nobody waits for at the end: the resolver cannot be told to hurry.
    asking = threading.Thread(target=_resolve, args=(host, found), daemon=True)
    asking.start()
    asking.join(RESOLVER_TIMEOUT)
    return bool(found) and all(ipaddress.ip_address(address).is_loopback for address in found)


def _resolve(host: str, found: list[str]) -> None:
    with suppress(OSError):
        found += [str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _owner(settings: Settings) -> str:
    """The home, by what is left of its path in one line of plain text."""
    path = "".join(letter if letter.isprintable() else "?" for letter in str(settings.home))
    return f"bough {settings.sockets.name[-8:]}: hosts of {path}"


def _address(listen: str) -> str:
    try:
        address = ipaddress.ip_address(listen)
    except ValueError:
        return "127.0.0.1"
    return str(address) if not address.is_unspecified else "127.0.0.1" if address.version == 4 else "::1"


def _bare(host: str) -> str:
    return host.partition(":")[0]
