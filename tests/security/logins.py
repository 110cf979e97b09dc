"""Logins at a gateway, taken step by step: up to the challenge, and then the proof."""

import socket

from bough.gateway.wire import messages
from gateway.auth.client import Client, stored
from gateway.doorway import PASSWORD, Doorway, Wire
from gateway.planes import access

COMPUTES = (2_000_000_000, 2_000_000_099)
RIGHT, WRONG, HELD_UP = "let in", "28P01", "53300"


def make_quick(doorway: Doorway) -> None:
    """The clients of these tests compute their proofs in Python."""
    doorway.plane.answer = access(stored(PASSWORD.encode(), b"0123456789abcdef", 4))


class Parked:
    """A login that was challenged and has not answered yet."""

    def __init__(self, wire: Wire, client: Client, challenge: bytes) -> None:
        self.wire = wire
        self._client = client
        self._challenge = challenge

    async def answer(self) -> str:
        """What came of it: let in, or the SQLSTATE of the refusal."""
        self.wire.say(messages.PASSWORD, self._client.final(self._challenge))
        message = await self.wire.message()
        return RIGHT if message.type == messages.AUTHENTICATION else messages.trouble(message.body).code

    def leave(self) -> None:
        self.wire.close()


async def begun(doorway: Doorway, sock: socket.socket | None = None, **parameters: str) -> Wire:
    wire = await doorway.wire(sock)
    await wire.encrypt(host=None, alpn="postgresql")
    wire.start(0, **parameters)
    return wire


async def parked(
    doorway: Doorway, endpoint: str, password: str = PASSWORD, sock: socket.socket | None = None
) -> Parked | str:
    """Or the SQLSTATE with which it was refused before."""
    wire = await begun(doorway, sock, options=f"endpoint={endpoint}")
    asked = await wire.message()
    if asked.type == messages.ERROR:
        return messages.trouble(asked.body).code
    client = Client(password.encode(), header="n,,", bound=b"")
    first = client.first()
    wire.say(messages.PASSWORD, b"SCRAM-SHA-256\0" + len(first).to_bytes(4) + first)
    return Parked(wire, client, (await wire.message()).body[4:])


async def logged_in(
    doorway: Doorway, endpoint: str, password: str = PASSWORD, sock: socket.socket | None = None
) -> str:
    login = await parked(doorway, endpoint, password, sock)
    if isinstance(login, str):
        return login
    outcome = await login.answer()
    login.leave()
    return outcome
