"""The client address behind trusted proxies, which the operator lists in the settings.

Each proxy appends the address of its client to `X-Forwarded-For`. So the header is read from the right: the last
address that does not belong to a trusted proxy is the client's. The client may have forged everything before it.
"""

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_MAX_HOPS = 32
_HOP = re.compile(r"\[([\da-fA-F:.]+)\](?::\d+)?|([\d.]+):\d+|([\da-fA-F:.]+)")  # no zone, which could be any text
_SCHEMES = frozenset({"http", "https"})


class TrustedProxies:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def apply(self, scope: Scope) -> None:
        """Replace `client` and `scheme` with the values that the outermost trusted proxy received."""
        peer = _parse_address(scope["client"][0]) if self._networks and scope.get("client") else None
        if peer is None or not self._trusts(peer):
            return
        caller = self._caller(peer, _header(scope, b"x-forwarded-for"))
        if caller != peer:
            scope["client"] = (str(caller), 0)
        scheme = _header(scope, b"x-forwarded-proto").strip().lower()
        if scheme in _SCHEMES:
            scope["scheme"] = scheme

    def _caller(self, peer: Address, header: str) -> Address:
        for hop in _hops_from_right(header):
            address = _parse_address(hop)
            if address is None:  # the addresses before it cannot be trusted
                break
            peer = address
            if not self._trusts(address):
                break
        return peer

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _hops_from_right(header: str) -> Iterator[str]:
    hops = header.rsplit(",", _MAX_HOPS)
    yield from reversed(hops[-_MAX_HOPS:])


def _header(scope: Scope, name: bytes) -> str:
    """Join all headers with this name."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)


def _parse_address(text: str) -> Address | None:
    """Parse an address with or without a port or brackets. Return None for anything else."""
    match = _HOP.fullmatch(text.strip())
    try:
        address = ip_address(match[1] or match[2] or match[3]) if match else None
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
