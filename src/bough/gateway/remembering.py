"""A short memory of control's answers, so that a connection seldom asks and a restart of control is not felt.

An answer counts for a few seconds. While control is away an old one is better than none, and what this
worker does not remember another may.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from bough import clock
from bough.gateway.plane import Access, Address, Away, Plane, patiently
from bough.gateway.siblings import Siblings
from bough.ids import EndpointId

QUESTION = "recall"
FORGET = "forget"  # what control says, and waits for
FRESH_SECONDS = 2.0
_MOST = 20_000

K = TypeVar("K")
V = TypeVar("V")


class Memory(Generic[K, V]):
    """The last answers, the longest unused forgotten first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def keep(self, key: K, answer: V) -> None:
        self._answers[key] = (clock.monotonic(), answer)
        self._answers.move_to_end(key)
        if len(self._answers) > _MOST:
            self._answers.popitem(last=False)

    def find(self, key: K, *, not_older_than: float | None = None) -> V | None:
        since, answer = self._answers.get(key, (0.0, None))
        if answer is None or (not_older_than is not None and clock.monotonic() - since > not_older_than):
            return None
        return answer

    def drop(self, key: K) -> None:
        self._answers.pop(key, None)

    def drop_where(self, unwanted: Callable[[K], bool]) -> None:
        for key in [each for each in self._answers if unwanted(each)]:
            del self._answers[key]


class Remembering:
    def __init__(self, plane: Plane, siblings: Siblings | None = None) -> None:
        self._plane = plane
        self._siblings = siblings
        self._access: Memory[tuple[EndpointId, str], Access] = Memory()
        # Answers about nobody are kept as long as others, or the clock would tell who exists. They have a memory
        # of their own, so that names of nobody push out names of nobody.
        self._nobody: Memory[tuple[EndpointId, str], Access] = Memory()
        self._changes = 0  # that were told of
        self._addresses: Memory[EndpointId, Address] = Memory()

    async def access(self, endpoint: EndpointId, role: str) -> Access:
        key = endpoint, role
        if found := self._find(key, not_older_than=FRESH_SECONDS):
            return found
        changes = self._changes
        answer = await self._asked(endpoint, role)
        self.drop_access(endpoint, role)
        if changes == self._changes:  # what was asked before a change may not be true after it
            (self._access if answer.is_known else self._nobody).keep(key, answer)
        return answer

    def _find(self, key: tuple[EndpointId, str], *, not_older_than: float | None = None) -> Access | None:
        """Both memories are looked at, whoever it is."""
        known = self._access.find(key, not_older_than=not_older_than)
        nobody = self._nobody.find(key, not_older_than=not_older_than)
        return known or nobody

    async def _asked(self, endpoint: EndpointId, role: str) -> Access:
        try:
            return await self._plane.access(endpoint, role)
        except Away:
            found = self._find((endpoint, role)) or await self._from_siblings(endpoint, role)
            if found is not None:
                return found
        return await patiently(lambda: self._plane.access(endpoint, role))

    async def _from_siblings(self, endpoint: EndpointId, role: str) -> Access | None:
        said = self._siblings and await self._siblings.ask_all(QUESTION, [endpoint, role])
        if not said:
            return None
        if said["address"] is not None:
            self._addresses.keep(endpoint, Address(**said["address"]))
        return Access.parse(said["access"])

    async def to_sibling(self, body: Any) -> dict[str, Any] | None:
        """What we remember of a role, and where its compute was."""
        endpoint, role = body
        access, address = self._find((endpoint, role)), self.address(endpoint)
        if access is None:
            return None
        return {"access": access.as_json(), "address": address and asdict(address)}

    def address(self, endpoint: EndpointId) -> Address | None:
        """Where it was; it may have gone to sleep since."""
        return self._addresses.find(endpoint)

    def keep_address(self, endpoint: EndpointId, address: Address) -> None:
        self._addresses.keep(endpoint, address)

    def drop_address(self, endpoint: EndpointId) -> None:
        self._addresses.drop(endpoint)

    def drop_access(self, endpoint: EndpointId, role: str) -> None:
        """After a refusal: the password may have changed a moment ago."""
        for memory in (self._access, self._nobody):
            memory.drop((endpoint, role))

    async def from_control(self, body: Any) -> bool:
        """The same, said at once."""
        self.drop(EndpointId(name) for name in body)
        return True

    def drop(self, endpoints: Iterable[EndpointId]) -> None:
        """Control says that something about them changed."""
        changed = set(endpoints)
        self._changes += bool(changed)
        for memory in (self._access, self._nobody) if changed else ():
            memory.drop_where(lambda key: key[0] in changed)
        for endpoint in changed:
            self._addresses.drop(endpoint)
