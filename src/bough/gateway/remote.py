"""The plane over HTTP, on control's socket."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bough.errors import Internal, Kind, PlatformError
from bough.gateway.http import Answer, Asker, Gone
from bough.gateway.plane import Access, Address, Away, Report
from bough.ids import EndpointId

_PREFIX = "/plane/v1"
_ANSWER_SECONDS = 10.0
_WAKE_SECONDS = 120.0  # control has a shorter limit of its own


class Told(PlatformError):
    """What control said, of the kind that it said."""

    def __init__(self, kind: Kind, public: str) -> None:
        super().__init__(public)
        self.kind = kind  # type: ignore[misc]  # of this one


class RemotePlane:
    def __init__(self, socket: Path) -> None:
        self._asker = Asker(socket)

    async def close(self) -> None:
        await self._asker.close()

    async def access(self, endpoint: EndpointId, role: str) -> Access:
        return Access.parse(await self._ask("access", {"endpoint": endpoint, "role": role}))

    async def wake(self, endpoint: EndpointId) -> Address:
        answer = await self._ask("wake", {"endpoint": endpoint}, timeout=_WAKE_SECONDS)
        return Address(host=answer["host"], port=answer["port"])

    async def report(self, report: Report) -> Sequence[EndpointId]:
        answer = await self._ask("report", asdict(report))
        return [EndpointId(text) for text in answer["drop"]]

    async def _ask(self, question: str, body: Mapping[str, Any], timeout: float = _ANSWER_SECONDS) -> Any:
        try:
            answer = await self._asker.ask(f"{_PREFIX}/{question}", body, timeout)
        except Gone as error:
            raise Away("The platform is restarting; try again in a moment.") from error
        if answer.status == 200:
            return answer.body
        raise _told(answer)


def _told(answer: Answer) -> PlatformError:
    try:
        return Told(Kind(answer.body["kind"]), str(answer.body["message"]))
    except (ValueError, KeyError, TypeError):
        return Internal(f"The platform answered with status {answer.status}.")
