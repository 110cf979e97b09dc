"""Logins at a gateway in two steps: up to the SCRAM challenge, then the proof."""

import socket

from bough.gateway.wire import messages
from support.control_plane import make_access
from support.gateway import PASSWORD, InProcessGateway, WireClient
from support.scram_client import ScramClient, make_verifier

PROJECT_UIDS = (2_000_000_000, 2_000_000_099)
ACCEPTED, INVALID_PASSWORD, TOO_MANY_CONNECTIONS = "let in", "28P01", "53300"


def use_cheap_verifier(gateway: InProcessGateway) -> None:
    """Uses a verifier with 4 iterations, because the clients of these tests compute proofs in Python."""
    gateway.control_plane.access_reply = make_access(make_verifier(PASSWORD.encode(), b"0123456789abcdef", 4))


class PendingLogin:
    """A login that received the challenge and has not sent its proof."""

    def __init__(self, wire: WireClient, client: ScramClient, challenge: bytes) -> None:
        self.wire_client = wire
        self._client = client
        self._challenge = challenge

    async def finish(self) -> str:
        """Sends the proof. Returns ACCEPTED or the SQLSTATE of the error."""
        self.wire_client.send(messages.PASSWORD_MESSAGE, self._client.final_message(self._challenge))
        message = await self.wire_client.read_message()
        return (
            ACCEPTED
            if message.type == messages.AUTHENTICATION
            else messages.parse_error_response(message.body).sqlstate
        )

    def close(self) -> None:
        self.wire_client.close()


async def send_startup(gateway: InProcessGateway, sock: socket.socket | None = None, **parameters: str) -> WireClient:
    wire = await gateway.open_wire_client(sock)
    await wire.start_tls(host=None, alpn="postgresql")
    wire.send_startup(0, **parameters)
    return wire


async def begin_login(
    gateway: InProcessGateway, endpoint: str, password: str = PASSWORD, sock: socket.socket | None = None
) -> PendingLogin | str:
    """Returns the pending login, or the SQLSTATE if the gateway rejects it before the challenge."""
    wire = await send_startup(gateway, sock, options=f"endpoint={endpoint}")
    reply = await wire.read_message()
    if reply.type == messages.ERROR_RESPONSE:
        return messages.parse_error_response(reply.body).sqlstate
    client = ScramClient(password.encode(), header="n,,", bound=b"")
    first = client.first_message()
    wire.send(messages.PASSWORD_MESSAGE, b"SCRAM-SHA-256\0" + len(first).to_bytes(4) + first)
    return PendingLogin(wire, client, (await wire.read_message()).body[4:])


async def log_in(
    gateway: InProcessGateway, endpoint: str, password: str = PASSWORD, sock: socket.socket | None = None
) -> str:
    login = await begin_login(gateway, endpoint, password, sock)
    if isinstance(login, str):
        return login
    outcome = await login.finish()
    login.close()
    return outcome
