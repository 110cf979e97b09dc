"""The clients past the door, by endpoint, so that all of one endpoint can be told to go."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from bough.gateway.remembering import Remembering
from bough.gateway.wire.messages import Trouble
from bough.ids import EndpointId

END = "end"  # what control says, and waits for


class Session(Protocol):
    """A client past the door, until it ends."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing, so that it can be told something."""

    def start(self) -> None: ...

    def stop(self, words: bytes) -> None:
        """End it from our side, with these words if it can be told now."""


class Sessions:
    def __init__(self, remembering: Remembering) -> None:
        self._remembering = remembering
        self._of: defaultdict[EndpointId, set[Session]] = defaultdict(set)

    @contextmanager
    def present(self, endpoint: EndpointId, session: Session) -> Iterator[None]:
        here = self._of[endpoint]
        here.add(session)
        try:
            yield
        finally:
            here.discard(session)
            if not here and self._of.get(endpoint) is here:
                del self._of[endpoint]

    def stop_all(self, words: bytes) -> None:
        for session in [each for here in self._of.values() for each in here]:
            session.stop(words)

    async def from_control(self, body: Any) -> bool:
        """Their compute will end, and with it all of its sessions: who waits for nothing is told why.

        Whoever is in the middle of something hears it from Postgres.
        """
        words = Trouble(code="57P01", message=str(body["why"]), hint="Connect again.").encoded()
        endpoints = [EndpointId(name) for name in body["endpoints"]]
        self._remembering.drop(endpoints)
        for session in [each for endpoint in endpoints for each in self._of.get(endpoint, ())]:
            if session.is_idle:
                session.stop(words)
        return True
