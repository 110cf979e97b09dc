"""The plane over HTTP, on control's socket."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bough.errors import ErrorKind, Internal, PlatformError
from bough.gateway.control_plane import Access, ActivityReport, ComputeAddress, ControlUnavailable
from bough.gateway.http import ConnectionFailed, HttpResponse, UnixHttpClient
from bough.ids import EndpointId

_PREFIX = "/plane/v1"
_ANSWER_SECONDS = 10.0
_WAKE_SECONDS = 120.0  # control has a shorter limit of its own


class ControlError(PlatformError):
    """What control said, of the kind that it said."""

    def __init__(self, kind: ErrorKind, public: str) -> None:
        super().__init__(public)
        self.kind = kind  # type: ignore[misc]  # of this one


class ControlClient:
    def __init__(self, socket_path: Path) -> None:
        self._asker = UnixHttpClient(socket_path)

    async def close(self) -> None:
        await self._asker.close()

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        return Access.from_json(await self._ask("access", {"endpoint": endpoint, "role": role}))

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        answer = await self._ask("wake", {"endpoint": endpoint}, timeout=_WAKE_SECONDS)
        return ComputeAddress(host=answer["host"], port=answer["port"])

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        answer = await self._ask("report", asdict(report))
        return [EndpointId(text) for text in answer["drop"]]

    async def _ask(self, question: str, body: Mapping[str, Any], timeout: float = _ANSWER_SECONDS) -> Any:
        try:
            answer = await self._asker.post(f"{_PREFIX}/{question}", body, timeout)
        except ConnectionFailed as error:
            raise ControlUnavailable("The platform is restarting; try again in a moment.") from error
        if answer.status == 200:
            return answer.body
        raise _to_control_error(answer)


def _to_control_error(answer: HttpResponse) -> PlatformError:
    try:
        return ControlError(ErrorKind(answer.body["kind"]), str(answer.body["message"]))
    except (ValueError, KeyError, TypeError):
        return Internal(f"The platform answered with status {answer.status}.")
