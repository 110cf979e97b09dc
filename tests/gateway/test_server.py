"""Accepting connections: client addresses, and no free file descriptors."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from bough.gateway import server
from bough.gateway.accept_balancer import ACCEPT_DELAY_SECONDS, AcceptBalancer
from bough.gateway.client_origin import ClientOrigins
from gateway.test_handshake import BY_NAME
from support import gateway as gateways
from support.gateway import InProcessGateway
from support.postgres import PostgresServer


@pytest.mark.parametrize(
    "peer, address",
    [
        (("192.0.2.1", 4000), "192.0.2.1"),
        (("::ffff:192.0.2.1", 4000, 0, 0), "192.0.2.1"),
        (("2001:db8::1", 4000, 0, 0), "2001:db8::1"),
        (("fe80::1%eth0", 4000, 0, 2), "fe80::1%eth0"),
        ("", None),
    ],
)
def test_the_address_of_a_client(peer: object, address: str | None) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert ClientOrigins(None).resolve(one, peer).address == address


@pytest.mark.parametrize(
    "peer, is_private",
    [
        (("::ffff:10.0.0.1", 4000, 0, 0), True),
        (("::ffff:192.0.2.1", 4000, 0, 0), False),
        (("fe80::1%e", 1, 0, 2), True),
    ],
)
def test_a_private_address_is_recognized_in_every_form(peer: object, is_private: bool) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert ClientOrigins(None).resolve(one, peer).is_private == is_private


def test_a_dead_client_is_noticed_by_the_system() -> None:
    """TCP keepalive probes silent clients."""
    tcp = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(tcp.getsockname()):
        accepted, _ = tcp.accept()
        server._set_tcp_options(accepted)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        accepted.close()
    tcp.close()


class ListenerWithoutDescriptors(socket.socket):
    """A listener whose process has no free file descriptors for a while."""

    rejections = 2

    def accept(self) -> Any:
        if self.rejections:
            self.rejections -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_without_file_descriptors_clients_wait_and_are_served_later(gateway: InProcessGateway) -> None:
    gateway.servers[0].stop_accepting()
    full = ListenerWithoutDescriptors()
    full.bind(("127.0.0.1", 0))
    full.listen(8)
    gateway.port = full.getsockname()[1]
    gateway.add_worker(full)
    assert await gateway.query_with_libpq(f"{BY_NAME} sslmode=require") == "1"
    assert full.rejections == 0


async def test_stopping_tells_everybody(gateway: InProcessGateway) -> None:
    wire = await gateway.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    wire.send_startup()
    await wire.authenticate()
    await wire.read_until(b"Z")
    silent_client = await gateway.open_wire_client()
    gateway.servers[0].stop_accepting()
    await gateway.servers[0].stop(0.2)
    assert (await wire.read_error()).sqlstate == "57P01"
    assert await silent_client.reader.read() == b""


@pytest.mark.parametrize("workers", [2, 3])
async def test_workers_take_clients_in_turn(postgres_server: PostgresServer, workers: int) -> None:
    async with gateways.open_gateway(postgres_server, workers=workers) as opened:
        for _ in range(4 * workers):
            wire = await opened.open_wire_client()
            await wire.request_tls()
            await asyncio.sleep(10 * ACCEPT_DELAY_SECONDS)  # paused listeners listen again
        assert [each.connections for each in opened.servers] == [4] * workers
        opened.servers[0].stop_accepting()  # it has as many connections as the others, and accepts no more
        for _ in range(4):
            await (await opened.open_wire_client()).request_tls()
        assert opened.servers[0].connections == 4


async def test_nobody_waits_for_a_worker_that_was_killed(postgres_server: PostgresServer) -> None:
    """Its published count stays at zero."""
    async with gateways.open_gateway(postgres_server, workers=1) as opened:
        AcceptBalancer(opened.folder, 5)
        for _ in range(3):
            await (await opened.open_wire_client()).request_tls()
        assert opened.servers[0].connections == 3
        assert not opened.servers[0]._balancer.has_fewest()
