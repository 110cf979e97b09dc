"""Compares every response with the contract.

As an event hook of an HTTP client it fails the test at once. Wrapped around an application it collects violations, for
clients that are not ours.
"""

import httpx2
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from support.contract import Contract, ContractOperation, ContractResponse


class ContractChecker:
    def __init__(self, contract: Contract | None) -> None:
        self._contract = contract
        self.seen_operations: set[tuple[ContractOperation, int]] = set()
        self.violations: list[str] = []
        self.responses: list[httpx2.Response] | None = None  # all responses, while a test records them

    async def check_response(self, response: httpx2.Response) -> None:
        """Check a response, as an event hook: `event_hooks={"response": [checker.check_response]}`."""
        await response.aread()
        if self.responses is not None:
            self.responses.append(response)
        request = response.request
        content_type = response.headers.get("content-type", "")
        violations = self.find_violations(
            ContractResponse(
                request.method, _path(request.url.raw_path), response.status_code, content_type, response.content
            )
        )
        assert not violations, "\n".join(violations)

    def find_violations(self, response: ContractResponse) -> list[str]:
        if self._contract is None:
            return []
        if operation := self._contract.match_operation(response.method, response.path):
            self.seen_operations.add((operation, response.status))
        return self._contract.find_violations(response)

    def wrap_app(self, app: ASGIApp) -> ASGIApp:
        """Return the application with a check of every response."""

        async def checked_app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            messages: list[Message] = []

            async def record(message: Message) -> None:
                messages.append(message)
                await send(message)

            await app(scope, receive, record)
            self.violations += self.find_violations(_make_response(scope, messages))

        return checked_app


def _make_response(scope: Scope, messages: list[Message]) -> ContractResponse:
    headers = {name.lower(): value.decode("latin-1") for name, value in messages[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in messages[1:])
    path = _path(scope.get("raw_path") or scope["path"].encode())
    return ContractResponse(scope["method"], path, messages[0]["status"], headers.get(b"content-type", ""), body)


def _path(raw_path: bytes) -> str:
    """Return the path as it was sent, because an encoded slash in a name does not separate segments."""
    return raw_path.partition(b"?")[0].decode("latin-1")
