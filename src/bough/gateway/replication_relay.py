"""The relay of a logical replication connection: it parses the client's messages and checks its commands.

Unlike other connections, a replication client sends few messages, so parsing them costs little. A rejected
command ends the connection, because an error of ours cannot be ordered among the compute's replies.
"""

from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import Channel
from bough.gateway.relay import Relay, RelayCallbacks
from bough.gateway.wire.framing import HEADER_LENGTH, parse_body_length
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.replication import MAX_INSPECTED_BYTES, find_command_error

_QUERY = b"Q"[0]
_MAX_LENGTH = 0x7FFFFFFF  # Postgres itself rejects messages that are too long


class ReplicationRelay(Relay):
    __slots__ = ("_buffered", "_remaining")

    def __init__(self, client: Channel, compute: Channel, counters: TrafficCounters, callbacks: RelayCallbacks) -> None:
        super().__init__(client, compute, counters, callbacks)
        self._buffered = b""  # the start of a message that is not checked yet
        self._remaining = 0  # bytes to come of an allowed message

    def _send_to_compute(self, data: memoryview | bytes) -> None:
        try:
            allowed = self._take_allowed(data)
        except ProtocolError as malformed:
            allowed = ErrorResponse(sqlstate=malformed.sqlstate, message=str(malformed))
        if isinstance(allowed, ErrorResponse):
            self.stop(allowed.encode())
        elif allowed:
            super()._send_to_compute(allowed)

    def _take_allowed(self, data: memoryview | bytes) -> bytes | ErrorResponse:
        """Return the bytes to forward now, and buffer the rest until more is received."""
        pending = self._buffered + bytes(data)
        at = min(self._remaining, len(pending))
        self._remaining -= at
        while len(pending) - at >= HEADER_LENGTH:
            length = HEADER_LENGTH + parse_body_length(pending[at : at + HEADER_LENGTH], _MAX_LENGTH)
            if pending[at] == _QUERY:
                inspected = min(length, HEADER_LENGTH + MAX_INSPECTED_BYTES)
                if len(pending) - at < inspected:
                    break
                error = find_command_error(pending[at + HEADER_LENGTH : at + inspected], is_whole=inspected == length)
                if error is not None:
                    return error
            end = at + length
            self._remaining = max(0, end - len(pending))
            at = min(end, len(pending))
        self._buffered = pending[at:]
        return pending[:at]
