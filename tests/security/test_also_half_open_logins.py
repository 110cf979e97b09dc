"""Connections from a few addresses that never log in do not lock out other clients."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from bough.gateway import connection, pending_logins
from bough.gateway.channel import TlsChannel
from security.login_steps import ACCEPTED, log_in, use_cheap_verifier
from support.gateway import ENDPOINT, SSL_REQUEST, InProcessGateway, open_gateway
from support.postgres import PostgresServer

ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with open_gateway(postgres_server) as opened:
        use_cheap_verifier(opened)
        yield opened


def connect_from(gateway: InProcessGateway, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), source_address=(source, 0))


async def wait_for_pending_logins(gateway: InProcessGateway, count: int) -> None:
    for _ in range(1000):
        if len(gateway.worker_services[0].pending_logins) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(gateway.worker_services[0].pending_logins)} of {count} were accepted")


async def test_few_addresses_do_not_keep_out_another(
    gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch, is_long_run: bool
) -> None:
    if not is_long_run:
        monkeypatch.setattr(pending_logins, "MAX_PENDING_LOGINS", 40)
        monkeypatch.setattr(pending_logins, "MAX_PENDING_LOGINS_PER_CLIENT", 10)
    per_address = pending_logins.MAX_PENDING_LOGINS // len(ADDRESSES)
    silent = []
    for number in range(per_address):
        silent += [connect_from(gateway, source) for source in ADDRESSES]
        await wait_for_pending_logins(gateway, (number + 1) * len(ADDRESSES))
    for _ in range(5):
        assert await log_in(gateway, ENDPOINT) == ACCEPTED
    assert await log_in(gateway, ENDPOINT, sock=connect_from(gateway, "127.0.0.9")) == ACCEPTED
    for sock in silent:
        sock.close()


async def test_an_address_has_no_more_than_its_part(gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_logins, "MAX_PENDING_LOGINS_PER_CLIENT", 3)
    silent = [connect_from(gateway, ADDRESSES[0]) for _ in range(3)]
    await wait_for_pending_logins(gateway, 3)
    with connect_from(gateway, ADDRESSES[0]) as one_more:
        one_more.setblocking(False)
        reply = await asyncio.get_running_loop().sock_recv(one_more, 1000)
        assert b"Too many clients are logging in" in reply
    assert await log_in(gateway, ENDPOINT) == ACCEPTED
    for sock in silent:
        sock.close()


async def test_a_handshake_that_is_cut_short_takes_no_work(
    gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS cannot send before the handshake is complete; retrying in a loop would use a whole core."""
    sends: list[int] = []
    send = TlsChannel.send

    def count_and_send(channel: TlsChannel, data: bytes) -> int:
        sends.append(len(data))
        return send(channel, data)

    monkeypatch.setattr(TlsChannel, "send", count_and_send)
    monkeypatch.setattr(connection, "LOGIN_TIMEOUT_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(SSL_REQUEST)
    assert await reader.readexactly(1) == b"S"
    assert await reader.read() == b""
    writer.close()
    assert len(sends) == 0
