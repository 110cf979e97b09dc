"""The address of a caller who comes through proxies: believed only when the operator named those proxies.

Each proxy adds to `X-Forwarded-For` the address that called it. So the header is read from the right: the
last address that no trusted proxy has is the caller's, and everything before it is the caller's own invention.
"""

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_MOST_HOPS = 32
_WRITTEN = re.compile(r"\[([\da-fA-F:.]+)\](?::\d+)?|([\d.]+):\d+|([\da-fA-F:.]+)")  # no zone: it may be any text
_SCHEMES = frozenset({"http", "https"})


class TrustedProxies:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def apply(self, scope: Scope) -> None:
        """`client` and `scheme` become those that the caller has at the outermost trusted proxy."""
        peer = _parsed(scope["client"][0]) if self._networks and scope.get("client") else None
        if peer is None or not self._trusts(peer):
            return
        caller = self._caller(peer, _values(scope, b"x-forwarded-for"))
        if caller != peer:
            scope["client"] = (str(caller), 0)
        scheme = _values(scope, b"x-forwarded-proto").strip().lower()
        if scheme in _SCHEMES:
            scope["scheme"] = scheme

    def _caller(self, peer: Address, header: str) -> Address:
        for hop in _from_the_right(header):
            address = _parsed(hop)
            if address is None:  # nobody knows what comes before it
                break
            peer = address
            if not self._trusts(address):
                break
        return peer

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _from_the_right(header: str) -> Iterator[str]:
    hops = header.rsplit(",", _MOST_HOPS)
    yield from reversed(hops[-_MOST_HOPS:])


def _values(scope: Scope, name: bytes) -> str:
    """All headers of the name are one list."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)


def _parsed(text: str) -> Address | None:
    """An address as proxies write it: bare, with a port, or in brackets; None for anything else."""
    found = _WRITTEN.fullmatch(text.strip())
    try:
        address = ip_address(found[1] or found[2] or found[3]) if found else None
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
