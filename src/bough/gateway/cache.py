"""A cache of control's access replies, so that most connections need no request and clients do not notice a restart.

A reply is fresh for a few seconds. While control is unavailable, the cache uses an old reply, and asks the
other workers for what it does not hold itself.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from bough import clock
from bough.domain.gateway_protocol import Access, ComputeAddress
from bough.gateway.control_plane import ControlPlane, ControlUnavailable, retry_while_unavailable
from bough.gateway.peers import WorkerPeers
from bough.ids import EndpointId

CACHED_ACCESS_REQUEST = "recall"  # to another worker
FRESH_SECONDS = 2.0
_MAX_ENTRIES = 20_000

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps a limited number of entries; evicts the one that was written longest ago."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def put(self, key: K, value: V) -> None:
        self._entries[key] = (clock.monotonic(), value)
        self._entries.move_to_end(key)
        if len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)

    def get(self, key: K, *, max_age: float | None = None) -> V | None:
        stored_at, value = self._entries.get(key, (0.0, None))
        if value is None or (max_age is not None and clock.monotonic() - stored_at > max_age):
            return None
        return value

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)

    def drop_where(self, predicate: Callable[[K], bool]) -> None:
        for key in [each for each in self._entries if predicate(each)]:
            del self._entries[key]


class ControlCache:
    def __init__(self, control_plane: ControlPlane, peers: WorkerPeers | None = None) -> None:
        self._control_plane = control_plane
        self._peers = peers
        self._access: BoundedCache[tuple[EndpointId, str], Access] = BoundedCache()
        # Unknown roles are cached as long as known ones, or response times would reveal which roles exist. They
        # have a cache of their own, so that guessed names evict only guessed names.
        self._unknown: BoundedCache[tuple[EndpointId, str], Access] = BoundedCache()
        self._change_count = 0
        self._addresses: BoundedCache[EndpointId, ComputeAddress] = BoundedCache()

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        key = endpoint, role
        if cached := self._find(key, max_age=FRESH_SECONDS):
            return cached
        change_count = self._change_count
        access = await self._fetch_access(endpoint, role)
        self.invalidate_access(endpoint, role)
        if change_count == self._change_count:  # otherwise the reply may be older than a change
            (self._access if access.is_known else self._unknown).put(key, access)
        return access

    def _find(self, key: tuple[EndpointId, str], *, max_age: float | None = None) -> Access | None:
        """Look in both caches for every role, so that known and unknown roles take the same time."""
        known = self._access.get(key, max_age=max_age)
        unknown = self._unknown.get(key, max_age=max_age)
        return known or unknown

    async def _fetch_access(self, endpoint: EndpointId, role: str) -> Access:
        try:
            return await self._control_plane.get_access(endpoint, role)
        except ControlUnavailable:
            found = self._find((endpoint, role)) or await self._ask_peers(endpoint, role)
            if found is not None:
                return found
        return await retry_while_unavailable(lambda: self._control_plane.get_access(endpoint, role))

    async def _ask_peers(self, endpoint: EndpointId, role: str) -> Access | None:
        reply = self._peers and await self._peers.request_any(CACHED_ACCESS_REQUEST, [endpoint, role])
        if not reply:
            return None
        if reply["address"] is not None:
            self._addresses.put(endpoint, ComputeAddress.from_json(reply["address"]))
        return Access.from_json(reply["access"])

    async def handle_cached_access_request(self, body: Any) -> dict[str, Any] | None:
        """Return the cached access reply about a role and the last address of its compute, for another worker."""
        endpoint, role = body
        access, address = self._find((endpoint, role)), self.get_address(endpoint)
        if access is None:
            return None
        return {"access": access.to_json(), "address": address and address.to_json()}

    def get_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        """Return the last known address. The compute may have been suspended since."""
        return self._addresses.get(endpoint)

    def put_address(self, endpoint: EndpointId, address: ComputeAddress) -> None:
        self._addresses.put(endpoint, address)

    def invalidate_address(self, endpoint: EndpointId) -> None:
        self._addresses.drop(endpoint)

    def invalidate_access(self, endpoint: EndpointId, role: str) -> None:
        """Drop the access reply about a role, such as after a failed login: its password may just have changed."""
        for cache in (self._access, self._unknown):
            cache.drop((endpoint, role))

    async def handle_invalidation(self, body: Any) -> bool:
        """Handle control's notification that endpoints have changed."""
        self.invalidate(EndpointId(name) for name in body)
        return True

    def invalidate(self, endpoints: Iterable[EndpointId]) -> None:
        changed = set(endpoints)
        self._change_count += bool(changed)
        for cache in (self._access, self._unknown) if changed else ():
            cache.drop_where(lambda key: key[0] in changed)
        for endpoint in changed:
            self._addresses.drop(endpoint)
