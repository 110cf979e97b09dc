"""Copying both ways on real sockets, to the end of either side."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import pytest

from bough.gateway import relay as relay_module
from bough.gateway.activity import Tally
from bough.gateway.channel import PlainChannel
from bough.gateway.relay import Hooks, Relay
from bough.gateway.wire.framing import Framing, Message
from bough.gateway.wire.messages import Trouble

READY = b"Z\0\0\0\x05I"
QUERY = b"Q\0\0\0\x0dselect 1\0"
GOODBYE = b"X\0\0\0\x04"
LAST_WORDS = b"E: it died"
READ_ONLY = Trouble(code="25006", message="cannot execute INSERT", severity="ERROR").encoded()
HINT = b"Choose a larger plan."


class Couple:
    """A client and a compute with a relay between them; both ends are ours."""

    def __init__(self) -> None:
        self.client, client_side = socket.socketpair()
        self.compute, compute_side = socket.socketpair()
        for each in (self.client, client_side, self.compute, compute_side):
            each.setblocking(False)
        self.cancelled = 0
        self.tally = Tally()
        self.over = asyncio.Event()
        hooks = Hooks(cancel=self._cancel, ended=self.over.set, last_words=LAST_WORDS)
        self.relay = Relay(PlainChannel(client_side), PlainChannel(compute_side), self.tally, hooks)
        self.relay.start()

    def _cancel(self) -> None:
        self.cancelled += 1

    async def says(self, end: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(end, data)

    async def hears(self, end: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = await asyncio.get_running_loop().sock_recv(end, count - len(data))
            if not piece:
                break
            data += piece
        return data

    async def asks_and_hears(self) -> None:
        await self.says(self.client, QUERY)
        assert await self.hears(self.compute, len(QUERY)) == QUERY
        await self.says(self.compute, READY)
        assert await self.hears(self.client, len(READY)) == READY

    def close(self) -> None:
        self.client.close()
        self.compute.close()


@pytest.fixture
async def couple() -> AsyncIterator[Couple]:
    made = Couple()
    yield made
    made.close()
    await asyncio.wait_for(made.over.wait(), 20)


async def test_bytes_go_both_ways_unchanged_and_are_counted(couple: Couple) -> None:
    there, back = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(2_000_000)
    _, _, heard_there, heard_back = await asyncio.gather(
        couple.says(couple.client, there),
        couple.says(couple.compute, back),
        couple.hears(couple.compute, len(there)),
        couple.hears(couple.client, len(back)),
    )
    assert (heard_there, heard_back) == (there, back)
    assert (couple.tally.bytes_in, couple.tally.bytes_out) == (len(there), len(back))


@pytest.mark.parametrize("side", ["client", "compute"])
async def test_a_reader_that_stalls_stops_the_writer_and_gets_everything_later(couple: Couple, side: str) -> None:
    reader, writer = (couple.client, couple.compute) if side == "client" else (couple.compute, couple.client)
    piece, sent = b"x" * 65536, 0
    for _ in range(200):  # until the sockets' own buffers are full, and the one piece in between
        with suppress(BlockingIOError):
            sent += writer.send(piece)
        await asyncio.sleep(0.002)
    assert sent < 4_000_000
    held = sum(len(part) for part in (couple.relay._to_client, couple.relay._to_compute))
    assert 0 < held <= 65536
    assert len(await couple.hears(reader, sent)) == sent


async def test_a_client_that_half_closes_gets_its_answer(couple: Couple) -> None:
    await couple.says(couple.client, QUERY)
    couple.client.shutdown(socket.SHUT_WR)
    assert await couple.hears(couple.compute, 1000) == QUERY  # and the end of it
    await couple.says(couple.compute, b"answer" + READY)
    couple.compute.close()
    assert await couple.hears(couple.client, 1000) == b"answer" + READY
    assert couple.cancelled == 0


async def test_a_compute_that_dies_between_messages_is_reported(couple: Couple) -> None:
    await couple.asks_and_hears()
    couple.compute.close()
    assert await couple.hears(couple.client, 1000) == LAST_WORDS


async def test_a_compute_that_dies_before_its_answer_is_reported(couple: Couple) -> None:
    await couple.asks_and_hears()
    await couple.says(couple.client, QUERY)
    await couple.hears(couple.compute, len(QUERY))
    couple.compute.close()
    assert await couple.hears(couple.client, 1000) == LAST_WORDS


async def test_what_a_compute_said_before_it_died_arrives_and_nothing_is_put_into_its_middle(couple: Couple) -> None:
    half_a_row = b"D\0\0\1\0abc"
    await couple.says(couple.client, QUERY)
    await couple.says(couple.compute, half_a_row)
    couple.compute.close()
    assert await couple.hears(couple.client, 1000) == half_a_row


async def test_a_client_that_said_goodbye_hears_no_complaint(couple: Couple) -> None:
    await couple.asks_and_hears()
    await couple.says(couple.client, GOODBYE)
    assert await couple.hears(couple.compute, len(GOODBYE)) == GOODBYE
    couple.compute.close()
    assert await couple.hears(couple.client, 1000) == b""


async def test_the_query_of_a_lost_client_is_cancelled(couple: Couple) -> None:
    await couple.says(couple.client, QUERY)
    await couple.hears(couple.compute, len(QUERY))
    couple.client.close()
    await couple.says(couple.compute, b"D" * 1000)  # which nobody takes
    await asyncio.wait_for(couple.over.wait(), 20)
    assert couple.cancelled == 1


async def test_the_query_of_a_silent_leaver_is_cancelled_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "GONE_SECONDS", 0.05)
    couple = Couple()
    await couple.says(couple.client, QUERY)
    couple.client.close()
    await asyncio.wait_for(couple.over.wait(), 20)
    assert couple.cancelled == 1
    couple.close()


async def test_an_idle_client_that_leaves_cancels_nothing(couple: Couple) -> None:
    await couple.asks_and_hears()
    couple.client.close()
    assert await couple.hears(couple.compute, 1000) == b""
    couple.compute.close()
    await asyncio.wait_for(couple.over.wait(), 20)
    assert couple.cancelled == 0


@pytest.mark.parametrize("prepare, heard, cancelled", [("idle", b"words", 0), ("busy", b"D", 1)])
async def test_stopping_tells_the_idle_and_cancels_the_busy(
    couple: Couple, prepare: str, heard: bytes, cancelled: int
) -> None:
    await couple.asks_and_hears()
    if prepare == "busy":
        await couple.says(couple.client, QUERY)
        await couple.says(couple.compute, b"D")
        assert await couple.hears(couple.client, 1) == b"D"
        heard = b""
    couple.relay.stop(b"words")
    assert await couple.hears(couple.client, 1000) == heard
    assert couple.cancelled == cancelled


class Scripted:
    """A compute whose pieces come as the test cuts them, and a client that takes as much as it likes."""

    fd = -1

    def __init__(self, pieces: list[bytes], dice: random.Random) -> None:
        self.pieces = pieces
        self.taken = b""
        self._dice = dice

    def receive(self, room: memoryview) -> int:
        piece = self.pieces.pop(0)
        room[: len(piece)] = piece
        return len(piece)

    def send(self, data: memoryview | bytes) -> int:
        count = self._dice.randint(0, len(data))
        self.taken += data[:count]
        return count


def without_hints(stream: bytes) -> list[bytes]:
    """The messages of a stream, which must be whole; ours taken out of the errors that have it."""
    framing, found = Framing(1 << 20), []
    framing.feed(stream)
    while (message := framing.next()) is not None:
        is_hinted = message.type == b"E" and message.body.endswith(b"H" + HINT + b"\0\0")
        body = message.body[: -len(HINT) - 3] + b"\0" if is_hinted else message.body
        found.append(Message(message.type, body).encoded())
    assert framing.rest() == b""
    return found


async def test_whatever_goes_by_is_changed_in_nothing_but_those_errors(long: bool, monkeypatch: Any) -> None:
    """Pieces of any size, also such that a row which holds the bytes of an error begins one."""
    loop = asyncio.get_running_loop()
    for name in ("add_reader", "add_writer", "remove_reader", "remove_writer"):
        monkeypatch.setattr(loop, name, lambda *_: None, raising=False)
    hinted = 0
    for seed in range(5000 if long else 500):
        dice = random.Random(seed)
        row = Message(b"D", dice.randbytes(dice.randint(0, 30)) + READ_ONLY).encoded()
        said = [dice.choice((row, READ_ONLY, READY, b"C\0\0\0\x06a\0")) for _ in range(dice.randint(1, 9))]
        stream, pieces = b"".join(said), []
        while stream:
            count = dice.choice((len(stream), dice.randint(1, len(stream)), len(READ_ONLY), len(READY)))
            pieces.append(stream[:count])
            stream = stream[count:]
        compute, client, tally = Scripted(pieces, dice), Scripted([], dice), Tally()
        tally.read_only_hint = dice.choice((HINT, HINT, b""))
        hooks = Hooks(cancel=lambda: None, ended=lambda: None, last_words=LAST_WORDS)
        relay = Relay(cast(Any, client), cast(Any, compute), tally, hooks)
        while compute.pieces:
            relay._from_compute()
            while relay._to_client:
                relay._flush_client()
        assert without_hints(client.taken) == said
        assert tally.bytes_out == len(client.taken)
        assert tally.read_only_hint or client.taken == b"".join(said)
        hinted += client.taken != b"".join(said)
    assert hinted > 50


async def test_an_error_for_want_of_room_has_a_hint_also_on_connections_that_were_there_before(couple: Couple) -> None:
    expected = READ_ONLY[:-1] + b"H" + HINT + b"\0\0"
    expected = b"E" + (len(expected) - 1).to_bytes(4) + expected[5:]
    for hint, heard in ((b"", READ_ONLY), (HINT, expected), (b"", READ_ONLY)):
        couple.tally.read_only_hint = hint
        await couple.says(couple.compute, READ_ONLY)
        assert await couple.hears(couple.client, len(heard)) == heard
        await couple.says(couple.compute, READY)
        assert await couple.hears(couple.client, len(READY)) == READY
