"""Accepting: who a client is by its address, and when there is no room for another."""

import errno
import socket
from typing import Any

import pytest

from bough.gateway import server
from bough.gateway.siblings import Siblings
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
    assert server._address(peer) == address


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
    doorway.servers.append(server.Server(doorway.rooms[0], [full]))
    doorway.siblings.append(Siblings(doorway.folder))
    doorway.servers[-1].open()
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
