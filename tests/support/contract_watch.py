"""Someone who reads every answer and compares it with the contract.

As an event hook of an HTTP client it fails the test at the faulty answer; as a layer around an
application it collects faults, for clients that are not ours.
"""

import httpx2
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from support.contract import Contract, ContractResponse, Operation


class ContractWatch:
    def __init__(self, contract: Contract | None) -> None:
        self._contract = contract
        self.seen_operations: set[tuple[Operation, int]] = set()
        self.violations: list[str] = []
        self.responses: list[httpx2.Response] | None = None  # every answer, while a test listens

    async def check_response(self, response: httpx2.Response) -> None:
        """For `event_hooks={"response": [watch.hook]}`."""
        await response.aread()
        if self.responses is not None:
            self.responses.append(response)
        request = response.request
        content_type = response.headers.get("content-type", "")
        faults = self.find_violations(
            ContractResponse(
                request.method, _path(request.url.raw_path), response.status_code, content_type, response.content
            )
        )
        assert not faults, "\n".join(faults)

    def find_violations(self, answer: ContractResponse) -> list[str]:
        if self._contract is None:
            return []
        if operation := self._contract.match_operation(answer.method, answer.path):
            self.seen_operations.add((operation, answer.status))
        return self._contract.find_violations(answer)

    def wrap_app(self, app: ASGIApp) -> ASGIApp:
        """The application, with every answer read on its way out."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            parts: list[Message] = []

            async def note(message: Message) -> None:
                parts.append(message)
                await send(message)

            await app(scope, receive, note)
            self.violations += self.find_violations(_answer(scope, parts))

        return watched


def _answer(scope: Scope, parts: list[Message]) -> ContractResponse:
    headers = {name.lower(): value.decode("latin-1") for name, value in parts[0]["headers"]}
    body = b"".join(part.get("body", b"") for part in parts[1:])
    path = _path(scope.get("raw_path") or scope["path"].encode())
    return ContractResponse(scope["method"], path, parts[0]["status"], headers.get(b"content-type", ""), body)


def _path(raw: bytes) -> str:
    """As it was sent: a slash in a name is not one that divides."""
    return raw.partition(b"?")[0].decode("latin-1")
