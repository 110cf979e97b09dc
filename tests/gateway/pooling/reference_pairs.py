"""Clients at the pooled host, each with a twin who has a session of its own at Postgres and does the same.

What the twin hears is what its client has to hear. The twins have a database of their own, made alike; a deed that
the pooled host treats otherwise has other words for the twin. Clients that find all members lent wait in a queue, as
they do in the gateway, and their twins with them.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from bough.gateway.wire import messages
from gateway.pooling.message_comparison import normalize_message
from gateway.pooling.reference_database import TIMEOUT, connect_reference
from support import protocol_messages
from support.pooler import Pooler
from support.protocol_client import ConnectionEnded, ProtocolClient

CONNECTION_LOST = ("57P01", "57P02")
_NAME = "application_name"
_REFUSED, _FAILED, _NO_BIND = "0A000", "25P02", "08P01"
END_MARKER = protocol_messages.SYNC + protocol_messages.query("")  # answered also in a failed transaction


@dataclass(frozen=True, slots=True)
class Step:
    """Something to say, and what the twin says at the same time."""

    data: bytes
    reference_data: bytes = b""  # the same, when it is empty
    is_rejected: bool = False  # of our own: the twin has the error without its sentence
    has_end_marker: bool = False  # by MARK at its end

    async def read_replies(self, speaker: ProtocolClient) -> None:
        """After an error it is hard to say what of a long batch is skipped, so its end has a mark."""
        if self.has_end_marker:
            await speaker.read_until("I")
        for _ in range(1 if self.has_end_marker else protocol_messages.count_ready_for_query(self.data)):
            await speaker.read_reply()


@dataclass(slots=True)
class ClientPair:
    client: ProtocolClient
    reference: ProtocolClient
    status: str = "I"
    has_hidden_setting: bool = False  # it has hidden something, which it may or may not find again
    has_temporary_table: bool = False  # a temporary one, so a transaction that follows at once would find it
    waiting_step: Step | None = None

    def compare(self, deed: Step, heard: list[Any], expected: list[Any]) -> None:
        said = [_is_equal(one, other, deed) for one, other in zip(heard, expected, strict=False)]
        assert all(said) and len(heard) == len(expected), f"the client heard\n  {heard}\nand its twin\n  {expected}"
        self.status = expected[-1][1].decode()
        self.has_temporary_table = self.has_temporary_table and self.status != "I"
        told, right = (self._parameters(speaker) for speaker in (self.client, self.reference))
        assert told == right, f"the client was told\n  {told}\nand its twin\n  {right}"

    def _parameters(self, speaker: ProtocolClient) -> dict[str, str]:
        """A name that was reset in a transaction is the client's own again when it ends, not before."""
        return {name: value for name, value in speaker.parameters.items() if name != _NAME or self.status == "I"}


def _is_equal(one: Any, other: Any, deed: Step) -> bool:
    """A refusal has our own sentence, a Bind that does not fit may name a like statement; of two faults in a failed
    transaction either may be told.
    """
    if one[0] != "E" or other[0] != "E":
        return bool(one == other)
    codes = {one[1][1], other[1][1]}
    return bool(one == other or (deed.is_rejected and codes == {_REFUSED}) or _FAILED in codes or codes == {_NO_BIND})


@dataclass(slots=True)
class ReferencePairs:
    """All pairs of one example."""

    pooler: Pooler
    server_connections: int
    pairs: dict[int, ClientPair] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    closed_clients: list[ProtocolClient] = field(default_factory=list)

    @property
    def count_in_transaction(self) -> int:
        return sum(pair.status != "I" for pair in self.pairs.values())

    def can_get_server_connection(self, who: int) -> bool:
        return self.pairs[who].status != "I" or self.count_in_transaction < self.server_connections

    async def get_pair(self, who: int) -> ClientPair:
        if who not in self.pairs:
            name = f"client {who}"
            client = await self.pooler.connect(application_name=name)
            client.timeout = TIMEOUT
            self.pairs[who] = ClientPair(client, await connect_reference(self.pooler, application_name=name))
        return self.pairs[who]

    async def run_step(self, who: int, deed: Step) -> None:
        pair = await self.get_pair(who)
        assert pair.waiting_step is None
        pair.client.received.clear()
        pair.client.send(deed.data)
        if self.can_get_server_connection(who):
            await self._compare_replies(pair, deed)
            await self._serve_waiting()
        else:
            pair.waiting_step = deed
            self.waiting.append(who)
            await asyncio.sleep(0.002)  # until the gateway has heard it, so the queue is in our order

    async def cancel_wait(self, who: int) -> None:
        """Of a deed that has not begun."""
        pair = self.pairs[who]
        await self.pooler.cancel(pair.client)
        answer = await pair.client.read_reply()
        assert (answer.message_types, answer.sqlstate, answer.status) == ("EZ", "57014", "I")
        pair.waiting_step = None
        self.waiting.remove(who)

    async def disconnect(self, who: int, last: bytes = b"", *, politely: bool = False, turns: int = 0) -> None:
        """Perhaps in the middle of some last words."""
        pair = self.pairs.pop(who)
        if last:
            pair.client.send(last)
            for _ in range(turns):
                await asyncio.sleep(0)
        if politely:
            await pair.client.terminate()
        else:
            pair.client.reset_connection()
        self.closed_clients.append(pair.client)
        await pair.reference.terminate()
        if who in self.waiting:
            self.waiting.remove(who)
        await self._serve_waiting()

    async def kill_server_connections(self) -> None:
        """Who was in a transaction is told so; nobody else sees anything of it."""
        await self.pooler.kill_server_connections()
        for who in [who for who, pair in self.pairs.items() if pair.status != "I"]:
            pair = self.pairs.pop(who)
            assert (await pair.client.read_error()).sqlstate in CONNECTION_LOST
            await pair.reference.terminate()
        await self._serve_waiting()

    async def kill_server_connections_during(self, who: int, words: bytes) -> bool:
        """Whether the client heard that its words were done all the same; it leaves in any case."""
        pair = await self.get_pair(who)
        pair.client.send(words)
        dying = await self.pooler.terminate_server_connections()
        try:
            answer = await pair.client.read_reply()
        except ConnectionEnded as ended:
            assert ended.args[0].sqlstate in CONNECTION_LOST
            await self.pairs.pop(who).reference.terminate()
            return False
        finally:
            await self.pooler.wait_until_gone(dying)
        assert (answer.errors, answer.status) == ([], "I"), answer
        await self.disconnect(who)
        return True

    async def finish(self) -> None:
        """Who waits is served, who is in a transaction leaves it; then all is compared."""
        for who in [who for who, pair in self.pairs.items() if pair.status != "I"]:
            await self.run_step(who, Step(protocol_messages.query("rollback")))
        while self.count_in_transaction:
            await self.finish()
        assert not self.waiting
        for who in list(self.pairs):
            await self.disconnect(who, politely=True)

    async def _serve_waiting(self) -> None:
        """Those who wait, in their order, as long as there is a member for them."""
        while self.waiting and self.count_in_transaction < self.server_connections:
            pair = self.pairs[self.waiting.pop(0)]
            deed, pair.waiting_step = pair.waiting_step, None
            assert deed is not None
            await self._compare_replies(pair, deed)

    async def _compare_replies(self, pair: ClientPair, deed: Step) -> None:
        pair.reference.received.clear()
        pair.reference.send(deed.reference_data or deed.data)
        await deed.read_replies(pair.reference)
        await deed.read_replies(pair.client)
        pair.compare(deed, _list_messages(pair.client), _list_messages(pair.reference))


def _list_messages(speaker: ProtocolClient) -> list[Any]:
    """Parameters are compared by themselves: what was restored may be told a little earlier."""
    return [normalize_message(each) for each in speaker.received if each.type != messages.PARAMETER_STATUS]
