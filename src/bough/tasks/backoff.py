"""Who does not answer is left alone for a while: to wait for one holds up the others."""

from bough import clock
from bough.ids import EndpointId

_SECONDS = 30.0


class Backoff:
    def __init__(self) -> None:
        self._until: dict[EndpointId, float] = {}

    def back_off(self, endpoint: EndpointId) -> None:
        now = clock.monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[endpoint] = now + _SECONDS

    def is_ready(self, endpoint: EndpointId) -> bool:
        return self._until.get(endpoint, 0.0) <= clock.monotonic()
