"""Logins at a gateway, taken step by step: up to the challenge, and then the proof."""

import socket

from bough.gateway.wire import messages
from support.control_plane import make_access
from support.gateway import PASSWORD, InProcessGateway, WireClient
from support.scram_client import ScramClient, make_verifier

PROJECT_UIDS = (2_000_000_000, 2_000_000_099)
ACCEPTED, INVALID_PASSWORD, TOO_MANY_CONNECTIONS = "let in", "28P01", "53300"


def use_cheap_verifier(doorway: InProcessGateway) -> None:
    """The clients of these tests compute their proofs in Python."""
    doorway.control_plane.access_reply = make_access(make_verifier(PASSWORD.encode(), b"0123456789abcdef", 4))


class PendingLogin:
    """A login that was challenged and has not answered yet."""

    def __init__(self, wire: WireClient, client: ScramClient, challenge: bytes) -> None:
        self.wire_client = wire
        self._client = client
        self._challenge = challenge

    async def finish(self) -> str:
        """What came of it: let in, or the SQLSTATE of the refusal."""
        self.wire_client.send(messages.PASSWORD_MESSAGE, self._client.final_message(self._challenge))
        message = await self.wire_client.read_message()
        return (
            ACCEPTED
            if message.type == messages.AUTHENTICATION
            else messages.parse_error_response(message.body).sqlstate
        )

    def close(self) -> None:
        self.wire_client.close()


async def send_startup(doorway: InProcessGateway, sock: socket.socket | None = None, **parameters: str) -> WireClient:
    wire = await doorway.open_wire_client(sock)
    await wire.start_tls(host=None, alpn="postgresql")
    wire.send_startup(0, **parameters)
    return wire


async def begin_login(
    doorway: InProcessGateway, endpoint: str, password: str = PASSWORD, sock: socket.socket | None = None
) -> PendingLogin | str:
    """Or the SQLSTATE with which it was refused before."""
    wire = await send_startup(doorway, sock, options=f"endpoint={endpoint}")
    asked = await wire.read_message()
    if asked.type == messages.ERROR_RESPONSE:
        return messages.parse_error_response(asked.body).sqlstate
    client = ScramClient(password.encode(), header="n,,", bound=b"")
    first = client.first_message()
    wire.send(messages.PASSWORD_MESSAGE, b"SCRAM-SHA-256\0" + len(first).to_bytes(4) + first)
    return PendingLogin(wire, client, (await wire.read_message()).body[4:])


async def log_in(
    doorway: InProcessGateway, endpoint: str, password: str = PASSWORD, sock: socket.socket | None = None
) -> str:
    login = await begin_login(doorway, endpoint, password, sock)
    if isinstance(login, str):
        return login
    outcome = await login.finish()
    login.close()
    return outcome
