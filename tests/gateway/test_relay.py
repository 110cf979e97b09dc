"""The relay on real sockets, until either side ends."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import pytest

from bough.gateway import relay as relay_module
from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import PlainChannel
from bough.gateway.relay import Relay, RelayCallbacks
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.messages import ErrorResponse

READY = b"Z\0\0\0\x05I"
QUERY = b"Q\0\0\0\x0dselect 1\0"
TERMINATE = b"X\0\0\0\x04"
BACKEND_DIED_ERROR = b"E: it died"
READ_ONLY = ErrorResponse(sqlstate="25006", message="cannot execute INSERT", severity="ERROR").encode()
HINT = b"Choose a larger plan."


class RelayPair:
    """A client and a compute with a relay between them; the test has both ends."""

    def __init__(self) -> None:
        self.client, client_side = socket.socketpair()
        self.compute, compute_side = socket.socketpair()
        for each in (self.client, client_side, self.compute, compute_side):
            each.setblocking(False)
        self.cancelled = 0
        self.counters = TrafficCounters()
        self.over = asyncio.Event()
        callbacks = RelayCallbacks(
            on_abandoned=self._cancel, on_end=self.over.set, backend_died_error=BACKEND_DIED_ERROR
        )
        self.relay = Relay(PlainChannel(client_side), PlainChannel(compute_side), self.counters, callbacks)
        self.relay.start()

    def _cancel(self) -> None:
        self.cancelled += 1

    async def send_from(self, end: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(end, data)

    async def receive_at(self, end: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = await asyncio.get_running_loop().sock_recv(end, count - len(data))
            if not chunk:
                break
            data += chunk
        return data

    async def exchange_query(self) -> None:
        await self.send_from(self.client, QUERY)
        assert await self.receive_at(self.compute, len(QUERY)) == QUERY
        await self.send_from(self.compute, READY)
        assert await self.receive_at(self.client, len(READY)) == READY

    def close(self) -> None:
        self.client.close()
        self.compute.close()


@pytest.fixture
async def relay_pair() -> AsyncIterator[RelayPair]:
    made = RelayPair()
    yield made
    made.close()
    await asyncio.wait_for(made.over.wait(), 20)


async def test_bytes_go_both_ways_unchanged_and_are_counted(relay_pair: RelayPair) -> None:
    there, back = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(2_000_000)
    _, _, heard_there, heard_back = await asyncio.gather(
        relay_pair.send_from(relay_pair.client, there),
        relay_pair.send_from(relay_pair.compute, back),
        relay_pair.receive_at(relay_pair.compute, len(there)),
        relay_pair.receive_at(relay_pair.client, len(back)),
    )
    assert (heard_there, heard_back) == (there, back)
    assert (relay_pair.counters.bytes_in, relay_pair.counters.bytes_out) == (len(there), len(back))


@pytest.mark.parametrize("side", ["client", "compute"])
async def test_a_reader_that_stalls_stops_the_writer_and_gets_everything_later(
    relay_pair: RelayPair, side: str
) -> None:
    reader, writer = (
        (relay_pair.client, relay_pair.compute) if side == "client" else (relay_pair.compute, relay_pair.client)
    )
    chunk, sent = b"x" * 65536, 0
    for _ in range(200):  # until the socket buffers and the relay's buffer are full
        with suppress(BlockingIOError):
            sent += writer.send(chunk)
        await asyncio.sleep(0.002)
    assert sent < 4_000_000
    held = sum(len(part) for part in (relay_pair.relay._to_client, relay_pair.relay._to_compute))
    assert 0 < held <= 65536
    assert len(await relay_pair.receive_at(reader, sent)) == sent


async def test_a_client_that_half_closes_gets_its_answer(relay_pair: RelayPair) -> None:
    await relay_pair.send_from(relay_pair.client, QUERY)
    relay_pair.client.shutdown(socket.SHUT_WR)
    assert await relay_pair.receive_at(relay_pair.compute, 1000) == QUERY  # and then the end of the stream
    await relay_pair.send_from(relay_pair.compute, b"answer" + READY)
    relay_pair.compute.close()
    assert await relay_pair.receive_at(relay_pair.client, 1000) == b"answer" + READY
    assert relay_pair.cancelled == 0


async def test_a_compute_that_dies_between_messages_is_reported(relay_pair: RelayPair) -> None:
    await relay_pair.exchange_query()
    relay_pair.compute.close()
    assert await relay_pair.receive_at(relay_pair.client, 1000) == BACKEND_DIED_ERROR


async def test_a_compute_that_dies_before_its_answer_is_reported(relay_pair: RelayPair) -> None:
    await relay_pair.exchange_query()
    await relay_pair.send_from(relay_pair.client, QUERY)
    await relay_pair.receive_at(relay_pair.compute, len(QUERY))
    relay_pair.compute.close()
    assert await relay_pair.receive_at(relay_pair.client, 1000) == BACKEND_DIED_ERROR


async def test_what_a_compute_said_before_it_died_arrives_and_nothing_is_put_into_its_middle(
    relay_pair: RelayPair,
) -> None:
    half_a_row = b"D\0\0\1\0abc"
    await relay_pair.send_from(relay_pair.client, QUERY)
    await relay_pair.send_from(relay_pair.compute, half_a_row)
    relay_pair.compute.close()
    assert await relay_pair.receive_at(relay_pair.client, 1000) == half_a_row


async def test_a_client_that_said_goodbye_hears_no_complaint(relay_pair: RelayPair) -> None:
    await relay_pair.exchange_query()
    await relay_pair.send_from(relay_pair.client, TERMINATE)
    assert await relay_pair.receive_at(relay_pair.compute, len(TERMINATE)) == TERMINATE
    relay_pair.compute.close()
    assert await relay_pair.receive_at(relay_pair.client, 1000) == b""


async def test_the_query_of_a_lost_client_is_cancelled(relay_pair: RelayPair) -> None:
    await relay_pair.send_from(relay_pair.client, QUERY)
    await relay_pair.receive_at(relay_pair.compute, len(QUERY))
    relay_pair.client.close()
    await relay_pair.send_from(relay_pair.compute, b"D" * 1000)  # which the client does not read
    await asyncio.wait_for(relay_pair.over.wait(), 20)
    assert relay_pair.cancelled == 1


async def test_the_query_of_a_silent_leaver_is_cancelled_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "HALF_CLOSED_SECONDS", 0.05)
    couple = RelayPair()
    await couple.send_from(couple.client, QUERY)
    couple.client.close()
    await asyncio.wait_for(couple.over.wait(), 20)
    assert couple.cancelled == 1
    couple.close()


async def test_an_idle_client_that_leaves_cancels_nothing(relay_pair: RelayPair) -> None:
    await relay_pair.exchange_query()
    relay_pair.client.close()
    assert await relay_pair.receive_at(relay_pair.compute, 1000) == b""
    relay_pair.compute.close()
    await asyncio.wait_for(relay_pair.over.wait(), 20)
    assert relay_pair.cancelled == 0


@pytest.mark.parametrize("prepare, received, cancelled", [("idle", b"words", 0), ("busy", b"D", 1)])
async def test_stopping_tells_the_idle_and_cancels_the_busy(
    relay_pair: RelayPair, prepare: str, received: bytes, cancelled: int
) -> None:
    await relay_pair.exchange_query()
    if prepare == "busy":
        await relay_pair.send_from(relay_pair.client, QUERY)
        await relay_pair.send_from(relay_pair.compute, b"D")
        assert await relay_pair.receive_at(relay_pair.client, 1) == b"D"
        received = b""
    relay_pair.relay.stop(b"words")
    assert await relay_pair.receive_at(relay_pair.client, 1000) == received
    assert relay_pair.cancelled == cancelled


class ScriptedChannel:
    """A compute that sends the given chunks, and a client that takes a random number of bytes at a time."""

    fd = -1

    def __init__(self, chunks: list[bytes], rng: random.Random) -> None:
        self.chunks = chunks
        self.received_bytes = b""
        self._dice = rng

    def receive(self, buffer: memoryview) -> int:
        chunk = self.chunks.pop(0)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def send(self, data: memoryview | bytes) -> int:
        count = self._dice.randint(0, len(data))
        self.received_bytes += data[:count]
        return count


def split_without_hints(stream: bytes) -> list[bytes]:
    """Split a stream into its messages, which must be complete, and remove our hint from the errors."""
    decoder, found = MessageDecoder(1 << 20), []
    decoder.feed(stream)
    while (message := decoder.next_message()) is not None:
        is_hinted = message.type == b"E" and message.body.endswith(b"H" + HINT + b"\0\0")
        body = message.body[: -len(HINT) - 3] + b"\0" if is_hinted else message.body
        found.append(Message(message.type, body).encode())
    assert decoder.take_remainder() == b""
    return found


async def test_whatever_goes_by_is_changed_in_nothing_but_those_errors(is_long_run: bool, monkeypatch: Any) -> None:
    """Chunks of any size, some of which begin with a row that contains the bytes of an error."""
    loop = asyncio.get_running_loop()
    for name in ("add_reader", "add_writer", "remove_reader", "remove_writer"):
        monkeypatch.setattr(loop, name, lambda *_: None, raising=False)
    hinted = 0
    for seed in range(5000 if is_long_run else 500):
        rng = random.Random(seed)
        row = Message(b"D", rng.randbytes(rng.randint(0, 30)) + READ_ONLY).encode()
        stream_messages = [rng.choice((row, READ_ONLY, READY, b"C\0\0\0\x06a\0")) for _ in range(rng.randint(1, 9))]
        stream, chunks = b"".join(stream_messages), []
        while stream:
            count = rng.choice((len(stream), rng.randint(1, len(stream)), len(READ_ONLY), len(READY)))
            chunks.append(stream[:count])
            stream = stream[count:]
        compute, client, counters = ScriptedChannel(chunks, rng), ScriptedChannel([], rng), TrafficCounters()
        counters.read_only_hint = rng.choice((HINT, HINT, b""))
        callbacks = RelayCallbacks(
            on_abandoned=lambda: None, on_end=lambda: None, backend_died_error=BACKEND_DIED_ERROR
        )
        relay = Relay(cast(Any, client), cast(Any, compute), counters, callbacks)
        while compute.chunks:
            relay._on_compute_readable()
            while relay._to_client:
                relay._flush_client()
        assert split_without_hints(client.received_bytes) == stream_messages
        assert counters.bytes_out == len(client.received_bytes)
        assert counters.read_only_hint or client.received_bytes == b"".join(stream_messages)
        hinted += client.received_bytes != b"".join(stream_messages)
    assert hinted > 50


async def test_an_error_for_want_of_room_has_a_hint_also_on_connections_that_were_there_before(
    relay_pair: RelayPair,
) -> None:
    expected = READ_ONLY[:-1] + b"H" + HINT + b"\0\0"
    expected = b"E" + (len(expected) - 1).to_bytes(4) + expected[5:]
    for hint, received in ((b"", READ_ONLY), (HINT, expected), (b"", READ_ONLY)):
        relay_pair.counters.read_only_hint = hint
        await relay_pair.send_from(relay_pair.compute, READ_ONLY)
        assert await relay_pair.receive_at(relay_pair.client, len(received)) == received
        await relay_pair.send_from(relay_pair.compute, READY)
        assert await relay_pair.receive_at(relay_pair.client, len(READY)) == READY
