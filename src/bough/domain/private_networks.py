"""Private networks, as the operator defines them, and the project settings that block connections by network."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

BLOCK_PUBLIC = "block_public_connections"
BLOCK_PRIVATE = "block_vpc_connections"

# Without the setting `private_networks`: loopback, RFC 1918, unique local and link-local addresses.
DEFAULT_PRIVATE_NETWORKS = (
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
)
_CACHED_ADDRESSES = 4096

_BLOCKED = "Connections from this network are blocked: the project accepts no clients from"
_PUBLIC_BLOCKED = (
    f"{_BLOCKED} public networks. Connect from a private network, or set {BLOCK_PUBLIC} of the project to false."
)
_PRIVATE_BLOCKED = (
    f"{_BLOCKED} private networks. Connect from a public network, or set {BLOCK_PRIVATE} of the project to false."
)
_ALL_BLOCKED = (
    f"{_BLOCKED} any network. Set {BLOCK_PUBLIC} or {BLOCK_PRIVATE} of the project to false, "
    "or connect on the machine itself with bough psql."
)


class PrivateNetworks:
    """`networks` is the operator's setting; None: the default, whose traffic is not counted apart."""

    def __init__(self, networks: Iterable[str] | None = None) -> None:
        self.is_set = networks is not None
        chosen = DEFAULT_PRIVATE_NETWORKS if networks is None else networks
        self._networks = [ip_network(each) for each in chosen]
        self.contains = lru_cache(_CACHED_ADDRESSES)(self._contains)

    def _contains(self, address: str) -> bool:
        """Accept the addresses of sockets: a link-local one has a zone."""
        parsed = ip_address(address.partition("%")[0])
        return any(parsed in network for network in self._networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedNetworks:
    """The networks whose clients a project rejects, whatever its `allowed_ips` say."""

    public: bool = False
    private: bool = False

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "BlockedNetworks":
        return cls(public=bool(body.get("public")), private=bool(body.get("private")))

    def to_json(self) -> dict[str, bool]:
        return {"public": self.public, "private": self.private}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "BlockedNetworks":
        return cls(public=bool(settings.get(BLOCK_PUBLIC)), private=bool(settings.get(BLOCK_PRIVATE)))

    def explain(self, *, is_private: bool) -> str | None:
        """Return why a client in a private or a public network is rejected, and what to do. Name no address."""
        if not (self.private if is_private else self.public):
            return None
        if self.public and self.private:
            return _ALL_BLOCKED
        return _PRIVATE_BLOCKED if is_private else _PUBLIC_BLOCKED
