"""A short memory of control's answers, so that a connection seldom asks and a restart of control is not felt.

An answer counts for a few seconds. While control is away an old one is better than none, and what this
worker does not remember another may.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from bough import clock
from bough.gateway.control_plane import (
    Access,
    ComputeAddress,
    ControlPlane,
    ControlUnavailable,
    retry_while_unavailable,
)
from bough.gateway.peers import WorkerPeers
from bough.ids import EndpointId

RECALL_REQUEST = "recall"
FORGET_REQUEST = "forget"  # what control says, and waits for
FRESH_SECONDS = 2.0
_MOST = 20_000

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """The last answers, the longest unused forgotten first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def put(self, key: K, answer: V) -> None:
        self._answers[key] = (clock.monotonic(), answer)
        self._answers.move_to_end(key)
        if len(self._answers) > _MOST:
            self._answers.popitem(last=False)

    def get(self, key: K, *, max_age: float | None = None) -> V | None:
        since, answer = self._answers.get(key, (0.0, None))
        if answer is None or (max_age is not None and clock.monotonic() - since > max_age):
            return None
        return answer

    def drop(self, key: K) -> None:
        self._answers.pop(key, None)

    def drop_where(self, predicate: Callable[[K], bool]) -> None:
        for key in [each for each in self._answers if predicate(each)]:
            del self._answers[key]


class ControlCache:
    def __init__(self, control_plane: ControlPlane, peers: WorkerPeers | None = None) -> None:
        self._plane = control_plane
        self._siblings = peers
        self._access: LruCache[tuple[EndpointId, str], Access] = LruCache()
        # Answers about nobody are kept as long as others, or the clock would tell who exists. They have a memory
        # of their own, so that names of nobody push out names of nobody.
        self._unknown: LruCache[tuple[EndpointId, str], Access] = LruCache()
        self._changes = 0  # that were told of
        self._addresses: LruCache[EndpointId, ComputeAddress] = LruCache()

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        key = endpoint, role
        if found := self._find(key, not_older_than=FRESH_SECONDS):
            return found
        changes = self._changes
        answer = await self._fetch_access(endpoint, role)
        self.invalidate_access(endpoint, role)
        if changes == self._changes:  # what was asked before a change may not be true after it
            (self._access if answer.is_known else self._unknown).put(key, answer)
        return answer

    def _find(self, key: tuple[EndpointId, str], *, not_older_than: float | None = None) -> Access | None:
        """Both memories are looked at, whoever it is."""
        known = self._access.get(key, max_age=not_older_than)
        nobody = self._unknown.get(key, max_age=not_older_than)
        return known or nobody

    async def _fetch_access(self, endpoint: EndpointId, role: str) -> Access:
        try:
            return await self._plane.get_access(endpoint, role)
        except ControlUnavailable:
            found = self._find((endpoint, role)) or await self._ask_peers(endpoint, role)
            if found is not None:
                return found
        return await retry_while_unavailable(lambda: self._plane.get_access(endpoint, role))

    async def _ask_peers(self, endpoint: EndpointId, role: str) -> Access | None:
        said = self._siblings and await self._siblings.request_any(RECALL_REQUEST, [endpoint, role])
        if not said:
            return None
        if said["address"] is not None:
            self._addresses.put(endpoint, ComputeAddress(**said["address"]))
        return Access.from_json(said["access"])

    async def handle_recall(self, body: Any) -> dict[str, Any] | None:
        """What we remember of a role, and where its compute was."""
        endpoint, role = body
        access, address = self._find((endpoint, role)), self.get_address(endpoint)
        if access is None:
            return None
        return {"access": access.to_json(), "address": address and asdict(address)}

    def get_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        """Where it was; it may have gone to sleep since."""
        return self._addresses.get(endpoint)

    def put_address(self, endpoint: EndpointId, address: ComputeAddress) -> None:
        self._addresses.put(endpoint, address)

    def invalidate_address(self, endpoint: EndpointId) -> None:
        self._addresses.drop(endpoint)

    def invalidate_access(self, endpoint: EndpointId, role: str) -> None:
        """After a refusal: the password may have changed a moment ago."""
        for memory in (self._access, self._unknown):
            memory.drop((endpoint, role))

    async def handle_forget(self, body: Any) -> bool:
        """The same, said at once."""
        self.invalidate(EndpointId(name) for name in body)
        return True

    def invalidate(self, endpoints: Iterable[EndpointId]) -> None:
        """Control says that something about them changed."""
        changed = set(endpoints)
        self._changes += bool(changed)
        for memory in (self._access, self._unknown) if changed else ():
            memory.drop_where(lambda key: key[0] in changed)
        for endpoint in changed:
            self._addresses.drop(endpoint)
