"""Parameters that Postgres reports to its clients, as a member has them and as a client was told."""

from collections.abc import Mapping
from weakref import WeakValueDictionary

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Framing, Message
from bough.gateway.wire.malformed import Malformed

_LONGEST = 1 << 20
# Postgres has about fifteen, and extensions add a few. More would be a compute that fills our memory.
MOST = 100
MOST_BYTES = 64 * 1024


class Reported:
    """One object for the same values, however many clients were told them."""

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: Mapping[bytes, bytes]) -> None:
        self.values = values

    @classmethod
    def of(cls, values: Mapping[bytes, bytes]) -> "Reported":
        if len(values) > MOST or sum(len(name) + len(value) for name, value in values.items()) > MOST_BYTES:
            raise Malformed(f"more than {MOST} parameters or {MOST_BYTES} bytes of them are reported")
        key = tuple(sorted(values.items()))
        found = _known.get(key)
        if found is None:
            found = _known[key] = cls(values)
        return found

    @classmethod
    def greeting(cls, said: bytes) -> "Reported":
        """What Postgres said when a session began."""
        framing = Framing(_LONGEST)
        framing.feed(said)
        values: dict[bytes, bytes] = {}
        while (message := framing.next()) is not None:
            if message.type == messages.PARAMETER:
                values |= _pair(message.body)
        return cls.of(values)

    def changed(self, body: bytes) -> "Reported":
        """With a parameter as a message has it."""
        return Reported.of({**self.values, **_pair(body)})

    def encoded(self) -> bytes:
        return b"".join(_message(name, value) for name, value in self.values.items())

    def since(self, told: "Reported") -> bytes:
        """The messages that say what is different."""
        return b"".join(_message(name, value) for name, value in self.values.items() if told.values.get(name) != value)


_known: WeakValueDictionary[tuple[tuple[bytes, bytes], ...], Reported] = WeakValueDictionary()


def _pair(body: bytes) -> dict[bytes, bytes]:
    name, _, rest = body.partition(b"\0")
    return {name: rest.removesuffix(b"\0")}


def _message(name: bytes, value: bytes) -> bytes:
    return Message(messages.PARAMETER, name + b"\0" + value + b"\0").encoded()
