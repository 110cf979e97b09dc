"""The plane over HTTP, on control's socket."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2

from bough.errors import Internal, Kind, PlatformError
from bough.gateway.plane import Access, Address, Away, Report
from bough.ids import EndpointId

_VERSION = "v1"
_ANSWER_SECONDS = 10.0
_WAKE_SECONDS = 120.0  # control has a shorter limit of its own
_AT_ONCE = 64


class Told(PlatformError):
    """What control said, of the kind that it said."""

    def __init__(self, kind: Kind, public: str) -> None:
        super().__init__(public)
        self.kind = kind  # type: ignore[misc]  # of this one


class RemotePlane:
    def __init__(self, socket: Path) -> None:
        limits = httpx2.Limits(max_connections=_AT_ONCE, max_keepalive_connections=_AT_ONCE, keepalive_expiry=60)
        transport = httpx2.AsyncHTTPTransport(uds=str(socket), limits=limits)
        self._client = httpx2.AsyncClient(
            transport=transport, base_url=f"http://control/plane/{_VERSION}", timeout=_ANSWER_SECONDS
        )

    async def close(self) -> None:
        await self._client.aclose()

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
            answer = await self._client.post(f"/{question}", json=body, timeout=timeout)
        except httpx2.HTTPError as error:
            raise Away("The platform is restarting; try again in a moment.") from error
        if answer.is_success:
            return answer.json()
        raise _told(answer)


def _told(answer: httpx2.Response) -> PlatformError:
    try:
        said = answer.json()
        return Told(Kind(said["kind"]), str(said["message"]))
    except (ValueError, KeyError, TypeError):
        return Internal(f"The platform answered with status {answer.status_code}.")
