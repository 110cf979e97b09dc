"""The sessions of this worker by endpoint, so that all sessions of an endpoint can be ended."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from bough.domain.gateway_protocol import EndSessions
from bough.gateway.cache import ControlCache
from bough.gateway.wire.messages import ErrorResponse
from bough.ids import EndpointId


class GatewaySession(Protocol):
    """The session of a client that has logged in."""

    @property
    def is_idle(self) -> bool:
        """Whether the client waits for no reply, so that it can be sent an error."""

    def start(self) -> None: ...

    def stop(self, error: bytes) -> None:
        """End the session; send this error first if the client is between messages."""


class SessionRegistry:
    def __init__(self, cache: ControlCache) -> None:
        self._cache = cache
        self._by_endpoint: defaultdict[EndpointId, set[GatewaySession]] = defaultdict(set)

    @contextmanager
    def register(self, endpoint: EndpointId, session: GatewaySession) -> Iterator[None]:
        sessions = self._by_endpoint[endpoint]
        sessions.add(session)
        try:
            yield
        finally:
            sessions.discard(session)
            if not sessions and self._by_endpoint.get(endpoint) is sessions:
                del self._by_endpoint[endpoint]

    def stop_all(self, error: bytes) -> None:
        for session in [each for sessions in self._by_endpoint.values() for each in sessions]:
            session.stop(error)

    async def handle_end(self, body: Any) -> bool:
        """End idle sessions with control's reason before their compute stops.

        Busy sessions get the error from Postgres itself.
        """
        request = EndSessions.from_json(body)
        error = ErrorResponse(sqlstate="57P01", message=request.reason, hint="Connect again.").encode()
        self._cache.invalidate(request.endpoints)
        for session in [each for endpoint in request.endpoints for each in self._by_endpoint.get(endpoint, ())]:
            if session.is_idle:
                session.stop(error)
        return True
