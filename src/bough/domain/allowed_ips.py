"""The addresses from which clients may connect to the endpoints of a project."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network, summarize_address_range
from typing import Any

_Address = IPv4Address | IPv6Address


def check_entry(text: str) -> str:
    """Accept an address, a network in CIDR notation, or a range `first-last`; otherwise raise ValueError."""
    try:
        list(_networks_of(text))
    except (ValueError, TypeError):
        raise ValueError(f"{text[:60]!r} is not an IP address, a network such as 10.0.0.0/8, or a range a-b") from None
    return text


def parse_networks(settings: Mapping[str, Any], *, branch_is_protected: bool) -> tuple[str, ...] | None:
    """Return the networks in CIDR notation; None: all addresses are allowed."""
    allowed = settings.get("allowed_ips") or {}
    entries = allowed.get("ips") or ()
    if not entries or (allowed.get("protected_branches_only") and not branch_is_protected):
        return None
    return _networks(tuple(entries))


@lru_cache(maxsize=1024)
def _networks(entries: Sequence[str]) -> tuple[str, ...]:
    """Entries that cannot be parsed allow no address."""
    found: list[str] = []
    for entry in entries:
        with suppress(ValueError):
            found += _networks_of(entry)
    return tuple(found)


def _networks_of(entry: str) -> Iterator[str]:
    if "%" in entry:
        raise ValueError("an address cannot have a zone")
    first, dash, last = entry.partition("-")
    if not dash:
        yield str(ip_network(entry.strip(), strict=False))
        return
    yield from map(str, _summarize(ip_address(first.strip()), ip_address(last.strip())))


def _summarize(first: _Address, last: _Address) -> Iterator[Any]:
    if isinstance(first, IPv4Address) and isinstance(last, IPv4Address):
        return summarize_address_range(first, last)
    if isinstance(first, IPv6Address) and isinstance(last, IPv6Address):
        return summarize_address_range(first, last)
    raise ValueError("a range cannot mix IPv4 and IPv6")
