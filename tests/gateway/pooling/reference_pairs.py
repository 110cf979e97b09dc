"""Clients of the pooled host, each paired with a reference client that takes the same steps directly on Postgres.

Both must get the same replies. The references use an identical database. Steps that the pooled host handles
differently have other messages for the reference. Clients wait in a queue when all server connections are in use, as
in the gateway, and their references wait with them.
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
_REJECTED, _FAILED, _WRONG_BIND = "0A000", "25P02", "08P01"
END_MARKER = protocol_messages.SYNC + protocol_messages.query("")  # answered in a failed transaction too


@dataclass(frozen=True, slots=True)
class Step:
    """Messages to send, and the messages for the reference at the same time."""

    data: bytes
    reference_data: bytes = b""  # empty: the same
    is_rejected: bool = False  # by the gateway: the reference gets an error without the message
    has_end_marker: bool = False  # the data ends with END_MARKER

    async def read_replies(self, connection: ProtocolClient) -> None:
        """After an error it is hard to predict what is skipped of a long batch, so its end is marked."""
        if self.has_end_marker:
            await connection.read_until("I")
        for _ in range(1 if self.has_end_marker else protocol_messages.count_ready_for_query(self.data)):
            await connection.read_reply()


@dataclass(slots=True)
class ClientPair:
    client: ProtocolClient
    reference: ProtocolClient
    status: str = "I"
    has_hidden_setting: bool = False  # a function has changed a setting, which may or may not be found again
    has_temporary_table: bool = False  # a transaction that follows at once would find it
    waiting_step: Step | None = None

    def compare(self, step: Step, replies: list[Any], expected: list[Any]) -> None:
        equal = [_is_equal(one, other, step) for one, other in zip(replies, expected, strict=False)]
        assert all(equal) and len(replies) == len(expected), (
            f"the client received\n  {replies}\nand its reference\n  {expected}"
        )
        self.status = expected[-1][1].decode()
        self.has_temporary_table = self.has_temporary_table and self.status != "I"
        parameters, expected_parameters = (self._parameters(connection) for connection in (self.client, self.reference))
        assert parameters == expected_parameters, (
            f"the client has\n  {parameters}\nand its reference\n  {expected_parameters}"
        )

    def _parameters(self, connection: ProtocolClient) -> dict[str, str]:
        """An application_name that was reset in a transaction is the client's own again only after it."""
        return {name: value for name, value in connection.parameters.items() if name != _NAME or self.status == "I"}


def _is_equal(one: Any, other: Any, step: Step) -> bool:
    """A rejection has the gateway's own message, and a wrong Bind may name another statement with the same query.

    If a failed transaction has two errors, either may be reported.
    """
    if one[0] != "E" or other[0] != "E":
        return bool(one == other)
    codes = {one[1][1], other[1][1]}
    return bool(
        one == other or (step.is_rejected and codes == {_REJECTED}) or _FAILED in codes or codes == {_WRONG_BIND}
    )


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

    async def run_step(self, who: int, step: Step) -> None:
        pair = await self.get_pair(who)
        assert pair.waiting_step is None
        pair.client.received.clear()
        pair.client.send(step.data)
        if self.can_get_server_connection(who):
            await self._compare_replies(pair, step)
            await self._serve_waiting()
        else:
            pair.waiting_step = step
            self.waiting.append(who)
            await asyncio.sleep(0.002)  # until the gateway has read it, so that the queue has the same order

    async def cancel_wait(self, who: int) -> None:
        """Cancel a step that waits for a server connection."""
        pair = self.pairs[who]
        await self.pooler.cancel(pair.client)
        reply = await pair.client.read_reply()
        assert (reply.message_types, reply.sqlstate, reply.status) == ("EZ", "57014", "I")
        pair.waiting_step = None
        self.waiting.remove(who)

    async def disconnect(self, who: int, last: bytes = b"", *, politely: bool = False, turns: int = 0) -> None:
        """Disconnect, perhaps in the middle of a last message."""
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
        """Clients in a transaction get an error; the others notice nothing."""
        await self.pooler.kill_server_connections()
        for who in [who for who, pair in self.pairs.items() if pair.status != "I"]:
            pair = self.pairs.pop(who)
            assert (await pair.client.read_error()).sqlstate in CONNECTION_LOST
            await pair.reference.terminate()
        await self._serve_waiting()

    async def kill_server_connections_during(self, who: int, data: bytes) -> bool:
        """Return whether the client got a successful reply; it disconnects in any case."""
        pair = await self.get_pair(who)
        pair.client.send(data)
        terminated = await self.pooler.terminate_server_connections()
        try:
            reply = await pair.client.read_reply()
        except ConnectionEnded as ended:
            assert ended.args[0].sqlstate in CONNECTION_LOST
            await self.pairs.pop(who).reference.terminate()
            return False
        finally:
            await self.pooler.wait_until_gone(terminated)
        assert (reply.errors, reply.status) == ([], "I"), reply
        await self.disconnect(who)
        return True

    async def finish(self) -> None:
        """Serve waiting clients, roll back open transactions, and disconnect all."""
        for who in [who for who, pair in self.pairs.items() if pair.status != "I"]:
            await self.run_step(who, Step(protocol_messages.query("rollback")))
        while self.count_in_transaction:
            await self.finish()
        assert not self.waiting
        for who in list(self.pairs):
            await self.disconnect(who, politely=True)

    async def _serve_waiting(self) -> None:
        """Serve waiting clients in order while there are server connections."""
        while self.waiting and self.count_in_transaction < self.server_connections:
            pair = self.pairs[self.waiting.pop(0)]
            step, pair.waiting_step = pair.waiting_step, None
            assert step is not None
            await self._compare_replies(pair, step)

    async def _compare_replies(self, pair: ClientPair, step: Step) -> None:
        pair.reference.received.clear()
        pair.reference.send(step.reference_data or step.data)
        await step.read_replies(pair.reference)
        await step.read_replies(pair.client)
        pair.compare(step, _list_messages(pair.client), _list_messages(pair.reference))


def _list_messages(connection: ProtocolClient) -> list[Any]:
    """Parameters are compared separately: restored ones may be reported a little earlier."""
    return [normalize_message(each) for each in connection.received if each.type != messages.PARAMETER_STATUS]
