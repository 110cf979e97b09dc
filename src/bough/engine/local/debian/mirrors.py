"""The mirrors of Debian that this machine may use, and downloads from them.

A file may be in the main archive or in the security archive, which often have different addresses: each is asked.
"""

import errno
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urlsplit, urlunsplit

import httpx2

from bough import clock
from bough.engine.local.debian import apt_configuration
from bough.engine.local.debian.errors import FileMissing, PackageError

MAX_INDEX_BYTES = 4 * 1024**2  # of a file whose size is not known before
_ATTEMPTS = 3
_PAUSE = 0.5  # seconds before the second attempt
_TIMEOUT = httpx2.Timeout(20.0)  # of each read, so it does not limit a file that arrives byte by byte
_MIN_BYTES_PER_SECOND = 4 * 1024
_PATIENCE_SECONDS = 60  # before the minimum rate counts
_CHUNK_BYTES = 256 * 1024
_NOT_THERE = (httpx2.codes.NOT_FOUND, httpx2.codes.FORBIDDEN, httpx2.codes.GONE)
_SECURITY = "debian-security"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """A file of which size and hash are known before it is downloaded."""

    path: str  # relative to the mirror's address
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    addresses: tuple[str, ...]
    source: str  # where the addresses come from, for messages
    checks_expiry: bool = True
    client: httpx2.Client

    @classmethod
    @contextmanager
    def open(cls, setting: str) -> Iterator[Self | None]:
        """Yield the mirrors of the setting `debian_mirror`, or else of apt's configuration; None without either."""
        configuration = apt_configuration.read()
        addresses = _parse_setting(setting) or configuration.addresses
        if not addresses:
            yield None
            return
        transports = {f"{scheme}://": httpx2.HTTPTransport(proxy=url) for scheme, url in configuration.proxies.items()}
        mounts = None if setting else transports
        with httpx2.Client(timeout=_TIMEOUT, follow_redirects=True, mounts=mounts) as client:
            yield cls(
                addresses=_add_security(addresses),
                source="the setting debian_mirror" if setting else "apt's configuration",
                checks_expiry=configuration.checks_expiry,
                client=client,
            )

    def preferring(self, path: str) -> Self:
        """Return the same mirrors, those first that should have the path."""
        is_security = "updates/" in path or "-security/" in path
        ordered = sorted(self.addresses, key=lambda address: (_SECURITY in urlsplit(address).path) is not is_security)
        return replace(self, addresses=tuple(ordered))

    def fetch_unknown(self, path: str) -> bytes:
        """Return a small file whose hash is not known, such as a signed index."""
        content = bytearray()

        def receive(chunk: bytes) -> None:
            content.extend(chunk)
            if len(content) > MAX_INDEX_BYTES:
                raise PackageError(f"The mirror's file {path} is larger than any such file of Debian: not used.")

        self._try_each(path, receive, content.clear)
        return bytes(content)

    def fetch(self, expected: ExpectedFile, target: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        """Download a file and check its size and hash. `on_bytes` gets the number of bytes received."""
        digest, received = hashlib.sha256(), 0

        def receive(chunk: bytes) -> None:
            nonlocal received
            received += len(chunk)
            if received > expected.size:
                raise PackageError(_describe_wrong(expected.path))
            digest.update(chunk)
            target.write(chunk)
            on_bytes(len(chunk))

        def restart() -> None:
            nonlocal digest, received
            on_bytes(-received)
            digest, received = hashlib.sha256(), 0
            target.seek(0)
            target.truncate()

        self.preferring(expected.path)._try_each(expected.path, receive, restart)
        if received != expected.size or not hmac.compare_digest(digest.hexdigest(), expected.sha256):
            raise PackageError(_describe_wrong(expected.path))

    def _try_each(self, path: str, receive: Callable[[bytes], None], restart: Callable[[], None]) -> None:
        """Ask one mirror after the other; a mirror that fails is asked again before the next one."""
        failure = ""
        for address in self.addresses:
            for attempt in range(_ATTEMPTS):
                if attempt:
                    time.sleep(_PAUSE * attempt)
                restart()
                try:
                    if _receive(self.client, f"{address}/{path}", receive):
                        return
                    break
                except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                    failure = f"{describe_address(address)}: {error or type(error).__name__}"
        if failure:
            raise PackageError(
                f"Debian's mirror from {self.source} does not answer ({failure}). "
                "Check the network or proxy, or set debian_mirror to another mirror, and try again."
            )
        raise FileMissing(f"No mirror from {self.source} has the file {path}.")


def describe_address(address: str) -> str:
    """Return an address without the password that it may contain."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _parse_setting(setting: str) -> tuple[str, ...]:
    return tuple(address.rstrip("/") for address in setting.replace(",", " ").split())


def _add_security(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Most mirrors serve the security archive beside the main one."""
    siblings = (f"{each.removesuffix('/debian')}/{_SECURITY}" for each in addresses if each.endswith("/debian"))
    return tuple(dict.fromkeys((*addresses, *siblings)))


def _receive(client: httpx2.Client, url: str, receive: Callable[[bytes], None]) -> bool:
    """Pass a file in chunks; return whether the mirror has it."""
    if url.startswith("file:"):
        return _receive_local(Path(urlsplit(url).path), receive)
    # Without a content encoding, because `.xz` files must arrive as they are.
    with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
        if response.status_code in _NOT_THERE:
            return False
        if not response.is_success:  # the message of httpx2 would contain the address with its password
            status = f"HTTP status {response.status_code}"
            raise httpx2.HTTPStatusError(status, request=response.request, response=response)
        started, received = clock.monotonic(), 0
        for chunk in response.iter_raw():
            receive(chunk)
            received += len(chunk)
            if clock.monotonic() - started > _PATIENCE_SECONDS + received / _MIN_BYTES_PER_SECOND:
                raise httpx2.ReadTimeout("the transfer is too slow")
    return True


def _receive_local(path: Path, receive: Callable[[bytes], None]) -> bool:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                receive(chunk)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return False
        raise PackageError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
    return True


def _describe_wrong(path: str) -> str:
    return (
        f"The mirror's file {path} does not have the expected size and hash, so it is not used. "
        "The mirror may be changing at this moment: try again, or set debian_mirror to another mirror."
    )
