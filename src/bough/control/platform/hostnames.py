"""Makes endpoint hostnames resolvable for every program on this machine.

Names under `localhost` resolve by themselves where the machine's resolver supports them (systemd-resolved does; plain
glibc does not). Elsewhere they are written to the hosts file, if it is writable: before the response that contains
the name, and until the endpoint is deleted.
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

RECHECK_SECONDS = 3600.0  # interval at which to check again whether hostnames resolve by themselves
RESOLVER_TIMEOUT = 1.0  # seconds; the resolver may query servers that are down

LiveEndpoints = Sequence[tuple[EndpointId, str]]  # endpoint and region

logger = log.get_logger(component="hostnames")


class Hostnames:
    def __init__(self, settings: Settings, hosts: EndpointHosts) -> None:
        self._settings = settings
        self._hosts = hosts
        self._hosts_file: Path | None = None
        self._checked_at: float | None = None
        self._check_lock = asyncio.Lock()
        self._write_lock = asyncio.Lock()

    async def publish(self, endpoint: EndpointId, region_id: str) -> None:
        """Write the endpoint's hostname, before any client learns it. Write errors are logged, not raised."""
        file = await self._file()
        if file is not None:
            line = self._line(endpoint, region_id)
            async with self._write_lock:
                await self._write(lambda: hosts_file.add_line(file, _owner(self._settings), line))

    async def sync(self, read_live: Callable[[], Awaitable[LiveEndpoints]]) -> bool:
        """Write exactly the hostnames of the live endpoints; return whether the file changed.

        Reads the endpoints under the write lock: one published between reading and writing would be lost.
        """
        file = await self._file()
        if file is None:
            return await asyncio.to_thread(remove_all, self._settings)
        async with self._write_lock:
            lines = [self._line(endpoint, region_id) for endpoint, region_id in await read_live()]
            return await self._write(lambda: hosts_file.write_lines(file, _owner(self._settings), lines))

    async def _file(self) -> Path | None:
        """Return the file to write hostnames to; None if it is not needed or not writable."""
        async with self._check_lock:
            if self._checked_at is None or clock.monotonic() - self._checked_at > RECHECK_SECONDS:
                self._hosts_file = await asyncio.to_thread(find_hosts_file, self._settings)
                self._checked_at = clock.monotonic()
        return self._hosts_file

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
    """Return the hosts file if hostnames do not resolve without it and it is writable."""
    file = settings.hosts_file
    if file is None or not is_local(settings.domain) or not os.access(file, os.W_OK):
        return None
    return None if resolve_without_file(settings) else file


def are_unresolvable(settings: Settings) -> bool:
    """Return whether hostnames do not resolve and cannot be written to the hosts file."""
    return is_local(settings.domain) and find_hosts_file(settings) is None and not resolve_without_file(settings)


def remove_all(settings: Settings) -> bool:
    """Remove all lines of this installation from the hosts file; return whether it changed."""
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
    """Return whether a random hostname, which is in no file, resolves to this machine."""
    region = settings.regions[0]
    host = f"ep-{secrets.token_hex(6)}.{region.location}.{region.cloud}.{settings.domain}"
    found: list[str] = []
    # A daemon thread, because a call of the resolver cannot be cancelled.
    thread = threading.Thread(target=_resolve, args=(host, found), daemon=True)
    thread.start()
    thread.join(RESOLVER_TIMEOUT)
    return bool(found) and all(ipaddress.ip_address(address).is_loopback for address in found)


def _resolve(host: str, found: list[str]) -> None:
    with suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _owner(settings: Settings) -> str:
    """Return a name for this home that fits into one line of plain text."""
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
