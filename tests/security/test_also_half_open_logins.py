"""Connections that never log in, from few addresses, do not keep out the others."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

import world
from bough.gateway import connection, newcomers
from bough.gateway.channel import TlsChannel
from gateway import doorway as doorways
from gateway.doorway import ENDPOINT, SSL_REQUEST, Doorway
from security.logins import RIGHT, logged_in, make_quick

FEW = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")


@pytest.fixture
async def doorway(postgres_server: world.PostgresServer) -> AsyncIterator[Doorway]:
    async with doorways.doorway(postgres_server) as opened:
        make_quick(opened)
        yield opened


def connected(doorway: Doorway, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", doorway.port), source_address=(source, 0))


async def counted(doorway: Doorway, count: int) -> None:
    for _ in range(1000):
        if len(doorway.rooms[0].newcomers) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(doorway.rooms[0].newcomers)} of {count} were accepted")


async def test_few_addresses_do_not_keep_out_another(
    doorway: Doorway, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    if not long:
        monkeypatch.setattr(newcomers, "NEWCOMERS", 40)
        monkeypatch.setattr(newcomers, "NEWCOMERS_OF_CLIENT", 10)
    each = newcomers.NEWCOMERS // len(FEW)
    silent = []
    for number in range(each):
        silent += [connected(doorway, source) for source in FEW]
        await counted(doorway, (number + 1) * len(FEW))
    for _ in range(5):
        assert await logged_in(doorway, ENDPOINT) == RIGHT
    assert await logged_in(doorway, ENDPOINT, sock=connected(doorway, "127.0.0.9")) == RIGHT
    for sock in silent:
        sock.close()


async def test_an_address_has_no_more_than_its_part(doorway: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newcomers, "NEWCOMERS_OF_CLIENT", 3)
    silent = [connected(doorway, FEW[0]) for _ in range(3)]
    await counted(doorway, 3)
    with connected(doorway, FEW[0]) as one_more:
        one_more.setblocking(False)
        said = await asyncio.get_running_loop().sock_recv(one_more, 1000)
        assert b"Too many clients are logging in" in said
    assert await logged_in(doorway, ENDPOINT) == RIGHT
    for sock in silent:
        sock.close()


async def test_a_handshake_that_is_cut_short_takes_no_work(doorway: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS cannot send before its handshake is over; to try again and again would take a core."""
    sends: list[int] = []
    send = TlsChannel.send

    def counting(channel: TlsChannel, data: bytes) -> int:
        sends.append(len(data))
        return send(channel, data)

    monkeypatch.setattr(TlsChannel, "send", counting)
    monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", doorway.port)
    writer.write(SSL_REQUEST)
    assert await reader.readexactly(1) == b"S"
    assert await reader.read() == b""
    writer.close()
    assert len(sends) == 0
