"""The clients past the door, by endpoint, so that all of one endpoint can be told to go."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from bough.gateway.cache import ControlCache
from bough.gateway.wire.messages import ErrorResponse
from bough.ids import EndpointId

END_REQUEST = "end"  # what control says, and waits for


class GatewaySession(Protocol):
    """A client past the door, until it ends."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing, so that it can be told something."""

    def start(self) -> None: ...

    def stop(self, error: bytes) -> None:
        """End it from our side, with these words if it can be told now."""


class SessionRegistry:
    def __init__(self, cache: ControlCache) -> None:
        self._remembering = cache
        self._of: defaultdict[EndpointId, set[GatewaySession]] = defaultdict(set)

    @contextmanager
    def register(self, endpoint: EndpointId, session: GatewaySession) -> Iterator[None]:
        here = self._of[endpoint]
        here.add(session)
        try:
            yield
        finally:
            here.discard(session)
            if not here and self._of.get(endpoint) is here:
                del self._of[endpoint]

    def stop_all(self, error: bytes) -> None:
        for session in [each for here in self._of.values() for each in here]:
            session.stop(error)

    async def handle_end(self, body: Any) -> bool:
        """Their compute will end, and with it all of its sessions: who waits for nothing is told why.

        Whoever is in the middle of something hears it from Postgres.
        """
        words = ErrorResponse(sqlstate="57P01", message=str(body["why"]), hint="Connect again.").encode()
        endpoints = [EndpointId(name) for name in body["endpoints"]]
        self._remembering.invalidate(endpoints)
        for session in [each for endpoint in endpoints for each in self._of.get(endpoint, ())]:
            if session.is_idle:
                session.stop(words)
        return True
