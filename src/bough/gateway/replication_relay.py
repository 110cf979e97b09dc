"""The relay of a logical replication connection: it frames what the client says and looks at its queries.

Other connections are copied without being read; replication has few messages from the client, so reading
them costs nothing that matters. A refused command ends the connection, because an error of ours cannot be
put in order between the answers of the compute.
"""

from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import Channel
from bough.gateway.relay import Relay, RelayCallbacks
from bough.gateway.wire.framing import HEADER_LENGTH, parse_body_length
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.replication import MAX_INSPECTED_BYTES, find_command_error

_QUERY = b"Q"[0]
_LARGEST = 0x7FFFFFFF  # Postgres refuses what is too long for it


class ReplicationRelay(Relay):
    __slots__ = ("_buffered", "_remaining")

    def __init__(self, client: Channel, compute: Channel, counters: TrafficCounters, callbacks: RelayCallbacks) -> None:
        super().__init__(client, compute, counters, callbacks)
        self._buffered = b""  # the beginning of a message that is not known to be allowed
        self._remaining = 0  # bytes to come of a message that is

    def _pass_on(self, said: memoryview | bytes) -> None:
        try:
            allowed = self._allowed(said)
        except ProtocolError as malformed:
            allowed = ErrorResponse(sqlstate=malformed.sqlstate, message=str(malformed))
        if isinstance(allowed, ErrorResponse):
            self.stop(allowed.encode())
        elif allowed:
            super()._pass_on(allowed)

    def _allowed(self, data: memoryview | bytes) -> bytes | ErrorResponse:
        """What of it may go on now; the rest is held until more has come."""
        said = self._buffered + bytes(data)
        at = min(self._remaining, len(said))
        self._remaining -= at
        while len(said) - at >= HEADER_LENGTH:
            length = HEADER_LENGTH + parse_body_length(said[at : at + HEADER_LENGTH], _LARGEST)
            if said[at] == _QUERY:
                looked_at = min(length, HEADER_LENGTH + MAX_INSPECTED_BYTES)
                if len(said) - at < looked_at:
                    break
                refused = find_command_error(said[at + HEADER_LENGTH : at + looked_at], is_whole=looked_at == length)
                if refused is not None:
                    return refused
            end = at + length
            self._remaining = max(0, end - len(said))
            at = min(end, len(said))
        self._buffered = said[at:]
        return said[:at]
