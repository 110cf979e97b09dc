"""The parameters that Postgres reports (ParameterStatus): those of a server connection or of a client."""

from collections.abc import Mapping
from weakref import WeakValueDictionary

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.protocol_error import ProtocolError

APPLICATION_NAME = "application_name"
_MAX_MESSAGE_BYTES = 1 << 20
# Postgres reports about fifteen, and extensions add a few. The limit keeps a compute from filling our memory.
MAX_PARAMETERS = 100
MAX_PARAMETER_BYTES = 64 * 1024


class ReportedParameters:
    """Interned: all clients and servers with the same values share one object."""

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
                f"it reports more than {MAX_PARAMETERS} parameters or {MAX_PARAMETER_BYTES} bytes of them"
            )
        key = tuple(sorted(values.items()))
        found = _known.get(key)
        if found is None:
            found = _known[key] = cls(values)
        return found

    @classmethod
    def from_greeting(cls, data: bytes) -> "ReportedParameters":
        """Parse the messages that Postgres sends at the start of a session."""
        decoder = MessageDecoder(_MAX_MESSAGE_BYTES)
        decoder.feed(data)
        values: dict[bytes, bytes] = {}
        while (message := decoder.next_message()) is not None:
            if message.type == messages.PARAMETER_STATUS:
                values |= _parse_status(message.body)
        return cls.intern(values)

    def with_status(self, body: bytes) -> "ReportedParameters":
        """Return a copy with the parameter of a ParameterStatus body."""
        return ReportedParameters.intern({**self.values, **_parse_status(body)})

    def encode(self) -> bytes:
        return b"".join(_encode_status(name, value) for name, value in self.values.items())

    def encode_changes(self, known: "ReportedParameters") -> bytes:
        """Encode the parameters that differ from `known`."""
        return b"".join(
            _encode_status(name, value) for name, value in self.values.items() if known.values.get(name) != value
        )


_known: WeakValueDictionary[tuple[tuple[bytes, bytes], ...], ReportedParameters] = WeakValueDictionary()


def _parse_status(body: bytes) -> dict[bytes, bytes]:
    name, _, rest = body.partition(b"\0")
    return {name: rest.removesuffix(b"\0")}


def _encode_status(name: bytes, value: bytes) -> bytes:
    return Message(messages.PARAMETER_STATUS, name + b"\0" + value + b"\0").encode()
