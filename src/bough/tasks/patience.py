"""Who does not answer is left alone for a while: to wait for one holds up the others."""

from bough import clock
from bough.ids import EndpointId

_SECONDS = 30.0


class Patience:
    def __init__(self) -> None:
        self._lost: dict[EndpointId, float] = {}

    def lose(self, endpoint: EndpointId) -> None:
        now = clock.monotonic()
        self._lost = {each: until for each, until in self._lost.items() if until > now}
        self._lost[endpoint] = now + _SECONDS

    def has(self, endpoint: EndpointId) -> bool:
        return self._lost.get(endpoint, 0.0) <= clock.monotonic()
