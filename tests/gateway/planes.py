"""A plane in memory, for the rooms that only pass its answers on: it says what the test tells it to."""

from collections.abc import Sequence
from datetime import datetime

from bough.gateway.plane import Access, Address, Away, Report
from bough.ids import EndpointId

HERE = Address(host="/run/compute", port=5432)


def access(verifier: str = "", *, is_known: bool = True, valid_until: datetime | None = None) -> Access:
    return Access(verifier=verifier, is_known=is_known, valid_until=valid_until, networks=None, refusal=None)


class PlaneInMemory:
    def __init__(self) -> None:
        self.is_away = False
        self.answer = access()
        self.asked: list[tuple[str, ...]] = []
        self.heard: list[Report] = []
        self.loses_answers = False
        self.drop: list[EndpointId] = []

    async def access(self, endpoint: EndpointId, role: str) -> Access:
        self._ask("access", endpoint, role)
        return self.answer

    async def wake(self, endpoint: EndpointId) -> Address:
        self._ask("wake", endpoint)
        return HERE

    async def report(self, report: Report) -> Sequence[EndpointId]:
        self._ask("report")
        self.heard.append(report)
        if self.loses_answers:
            raise Away("lost on the way back")
        return self.drop

    def _ask(self, *question: str) -> None:
        self.asked.append(question)
        if self.is_away:
            raise Away("away")
