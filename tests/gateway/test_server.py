"""Accepting: who a client is by its address, and when there is no room for another."""

import asyncio
import errno
import socket
from typing import Any

import pytest

import world
from bough.gateway import server
from bough.gateway.balance import PATIENCE, Balance
from bough.gateway.peer import Peers
from gateway import doorway as doorways
from gateway.doorway import Doorway
from gateway.test_door import BY_NAME


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
        assert Peers(None).of(one, peer).address == address


def test_a_dead_client_is_noticed_by_the_system() -> None:
    """TCP asks a silent client from time to time whether it is there."""
    tcp = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(tcp.getsockname()):
        accepted, _ = tcp.accept()
        server._tune(accepted)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        accepted.close()
    tcp.close()


class Full(socket.socket):
    """A listener whose process has no file descriptor left, for a while."""

    refusals = 2

    def accept(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_without_file_descriptors_clients_wait_and_are_served_later(doorway: Doorway) -> None:
    doorway.servers[0].shut()
    full = Full()
    full.bind(("127.0.0.1", 0))
    full.listen(8)
    doorway.port = full.getsockname()[1]
    doorway.add_worker(full)
    assert await doorway.libpq(f"{BY_NAME} sslmode=require") == "1"
    assert full.refusals == 0


async def test_stopping_tells_everybody(doorway: Doorway) -> None:
    wire = await doorway.wire()
    await wire.encrypt(alpn="postgresql")
    wire.start()
    await wire.log_in()
    await wire.until(b"Z")
    newcomer = await doorway.wire()
    doorway.servers[0].shut()
    await doorway.servers[0].stop(0.2)
    assert (await wire.trouble()).code == "57P01"
    assert await newcomer.reader.read() == b""


@pytest.mark.parametrize("workers", [2, 3])
async def test_workers_take_clients_in_turn(postgres_server: world.PostgresServer, workers: int) -> None:
    async with doorways.doorway(postgres_server, workers=workers) as opened:
        for _ in range(4 * workers):
            wire = await opened.wire()
            await wire.ask_for_tls()
            await asyncio.sleep(10 * PATIENCE)  # those that let another go ahead listen again
        assert [each.connections for each in opened.servers] == [4] * workers
        opened.servers[0].shut()  # which has as many as the others, and takes nobody any more
        for _ in range(4):
            await (await opened.wire()).ask_for_tls()
        assert opened.servers[0].connections == 4


async def test_nobody_waits_for_a_worker_that_was_killed(postgres_server: world.PostgresServer) -> None:
    """Its note stays as it was, with none."""
    async with doorways.doorway(postgres_server, workers=1) as opened:
        Balance(opened.folder, 5)
        for _ in range(3):
            await (await opened.wire()).ask_for_tls()
        assert opened.servers[0].connections == 3
        assert not opened.servers[0]._balance.has_fewest()
