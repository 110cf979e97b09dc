"""Parameters that Postgres reports to its clients, as a member has them and as a client was told."""

from collections.abc import Mapping
from weakref import WeakValueDictionary

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.protocol_error import ProtocolError

_LONGEST = 1 << 20
# Postgres has about fifteen, and extensions add a few. More would be a compute that fills our memory.
MAX_PARAMETERS = 100
MAX_PARAMETER_BYTES = 64 * 1024


class ReportedParameters:
    """One object for the same values, however many clients were told them."""

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: Mapping[bytes, bytes]) -> None:
        self.values = values

    @classmethod
    def intern(cls, values: Mapping[bytes, bytes]) -> "ReportedParameters":
        if (
            len(values) > MAX_PARAMETERS
            or sum(len(name) + len(value) for name, value in values.items()) > MAX_PARAMETER_BYTES
        ):
            raise ProtocolError(
                f"more than {MAX_PARAMETERS} parameters or {MAX_PARAMETER_BYTES} bytes of them are reported"
            )
        key = tuple(sorted(values.items()))
        found = _known.get(key)
        if found is None:
            found = _known[key] = cls(values)
        return found

    @classmethod
    def from_greeting(cls, data: bytes) -> "ReportedParameters":
        """What Postgres said when a session began."""
        framing = MessageDecoder(_LONGEST)
        framing.feed(data)
        values: dict[bytes, bytes] = {}
        while (message := framing.next_message()) is not None:
            if message.type == messages.PARAMETER_STATUS:
                values |= _pair(message.body)
        return cls.intern(values)

    def with_status(self, body: bytes) -> "ReportedParameters":
        """With a parameter as a message has it."""
        return ReportedParameters.intern({**self.values, **_pair(body)})

    def encode(self) -> bytes:
        return b"".join(_message(name, value) for name, value in self.values.items())

    def encode_changes(self, known: "ReportedParameters") -> bytes:
        """The messages that say what is different."""
        return b"".join(_message(name, value) for name, value in self.values.items() if known.values.get(name) != value)


_known: WeakValueDictionary[tuple[tuple[bytes, bytes], ...], ReportedParameters] = WeakValueDictionary()


def _pair(body: bytes) -> dict[bytes, bytes]:
    name, _, rest = body.partition(b"\0")
    return {name: rest.removesuffix(b"\0")}


def _message(name: bytes, value: bytes) -> bytes:
    return Message(messages.PARAMETER_STATUS, name + b"\0" + value + b"\0").encode()
