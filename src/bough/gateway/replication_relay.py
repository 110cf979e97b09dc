"""The relay of a logical replication connection: it frames what the client says and looks at its queries.

Other connections are copied without being read; replication has few messages from the client, so reading
them costs nothing that matters. A refused command ends the connection, because an error of ours cannot be
put in order between the answers of the compute.
"""

from bough.gateway.activity import Tally
from bough.gateway.channel import Channel
from bough.gateway.relay import Hooks, Relay
from bough.gateway.wire.framing import HEADER, body_length
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.messages import Trouble
from bough.gateway.wire.replication import LOOKED_AT, refusal

_QUERY = b"Q"[0]
_LARGEST = 0x7FFFFFFF  # Postgres refuses what is too long for it


class ReplicationRelay(Relay):
    __slots__ = ("_held", "_passing")

    def __init__(self, client: Channel, compute: Channel, tally: Tally, hooks: Hooks) -> None:
        super().__init__(client, compute, tally, hooks)
        self._held = b""  # the beginning of a message that is not known to be allowed
        self._passing = 0  # bytes to come of a message that is

    def _pass_on(self, said: memoryview | bytes) -> None:
        try:
            allowed = self._allowed(said)
        except Malformed as malformed:
            allowed = Trouble(code=malformed.code, message=str(malformed))
        if isinstance(allowed, Trouble):
            self.stop(allowed.encoded())
        elif allowed:
            super()._pass_on(allowed)

    def _allowed(self, data: memoryview | bytes) -> bytes | Trouble:
        """What of it may go on now; the rest is held until more has come."""
        said = self._held + bytes(data)
        at = min(self._passing, len(said))
        self._passing -= at
        while len(said) - at >= HEADER:
            length = HEADER + body_length(said[at : at + HEADER], _LARGEST)
            if said[at] == _QUERY:
                looked_at = min(length, HEADER + LOOKED_AT)
                if len(said) - at < looked_at:
                    break
                refused = refusal(said[at + HEADER : at + looked_at], is_whole=looked_at == length)
                if refused is not None:
                    return refused
            end = at + length
            self._passing = max(0, end - len(said))
            at = min(end, len(said))
        self._held = said[at:]
        return said[:at]
