"""Clients at the pooled host, each with a twin who has a session of its own at Postgres and does the same.

What the twin hears is what its client has to hear. The twins have a database of their own, made alike; a deed that
the pooled host treats otherwise has other words for the twin. Clients that find all members lent wait in a queue, as
they do in the gateway, and their twins with them.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from bough.gateway.wire import messages
from gateway.pooling import phrases
from gateway.pooling.pooler import Pooler
from gateway.pooling.shown import shown
from gateway.pooling.speaking import Ended, Speaker
from gateway.pooling.two_databases import PATIENCE, twin

LOST = ("57P01", "57P02")
_NAME = "application_name"
_REFUSED, _FAILED, _NO_BIND = "0A000", "25P02", "08P01"
MARK = phrases.SYNC + phrases.query("")  # answered also in a failed transaction


@dataclass(frozen=True, slots=True)
class Deed:
    """Something to say, and what the twin says at the same time."""

    words: bytes
    twins: bytes = b""  # the same, when it is empty
    is_refusal: bool = False  # of our own: the twin has the error without its sentence
    is_marked: bool = False  # by MARK at its end

    async def heard(self, speaker: Speaker) -> None:
        """After an error it is hard to say what of a long batch is skipped, so its end has a mark."""
        if self.is_marked:
            await speaker.until("I")
        for _ in range(1 if self.is_marked else phrases.ends(self.words)):
            await speaker.answer()


@dataclass(slots=True)
class Pair:
    client: Speaker
    twin: Speaker
    status: str = "I"
    hides: bool = False  # it has hidden something, which it may or may not find again
    has_table: bool = False  # a temporary one, so a transaction that follows at once would find it
    waits: Deed | None = None

    def compared(self, deed: Deed, heard: list[Any], expected: list[Any]) -> None:
        said = [_alike(one, other, deed) for one, other in zip(heard, expected, strict=False)]
        assert all(said) and len(heard) == len(expected), f"the client heard\n  {heard}\nand its twin\n  {expected}"
        self.status = expected[-1][1].decode()
        self.has_table = self.has_table and self.status != "I"
        told, right = (self._parameters(speaker) for speaker in (self.client, self.twin))
        assert told == right, f"the client was told\n  {told}\nand its twin\n  {right}"

    def _parameters(self, speaker: Speaker) -> dict[str, str]:
        """A name that was reset in a transaction is the client's own again when it ends, not before."""
        return {name: value for name, value in speaker.parameters.items() if name != _NAME or self.status == "I"}


def _alike(one: Any, other: Any, deed: Deed) -> bool:
    """A refusal has our own sentence, a Bind that does not fit may name a like statement; of two faults in a failed
    transaction either may be told.
    """
    if one[0] != "E" or other[0] != "E":
        return bool(one == other)
    codes = {one[1][1], other[1][1]}
    return bool(one == other or (deed.is_refusal and codes == {_REFUSED}) or _FAILED in codes or codes == {_NO_BIND})


@dataclass(slots=True)
class Twins:
    """All pairs of one example."""

    pooler: Pooler
    members: int
    pairs: dict[int, Pair] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    left: list[Speaker] = field(default_factory=list)

    @property
    def holders(self) -> int:
        return sum(pair.status != "I" for pair in self.pairs.values())

    def can_have_member(self, who: int) -> bool:
        return self.pairs[who].status != "I" or self.holders < self.members

    async def enter(self, who: int) -> Pair:
        if who not in self.pairs:
            name = f"client {who}"
            client = await self.pooler.client(application_name=name)
            client.patience = PATIENCE
            self.pairs[who] = Pair(client, await twin(self.pooler, application_name=name))
        return self.pairs[who]

    async def do(self, who: int, deed: Deed) -> None:
        pair = await self.enter(who)
        assert pair.waits is None
        pair.client.heard.clear()
        pair.client.say(deed.words)
        if self.can_have_member(who):
            await self._hear(pair, deed)
            await self._serve()
        else:
            pair.waits = deed
            self.waiting.append(who)
            await asyncio.sleep(0.002)  # until the gateway has heard it, so the queue is in our order

    async def cancel_wait(self, who: int) -> None:
        """Of a deed that has not begun."""
        pair = self.pairs[who]
        await self.pooler.cancel(pair.client)
        answer = await pair.client.answer()
        assert (answer.kinds, answer.code, answer.status) == ("EZ", "57014", "I")
        pair.waits = None
        self.waiting.remove(who)

    async def leave(self, who: int, last: bytes = b"", *, politely: bool = False, turns: int = 0) -> None:
        """Perhaps in the middle of some last words."""
        pair = self.pairs.pop(who)
        if last:
            pair.client.say(last)
            for _ in range(turns):
                await asyncio.sleep(0)
        if politely:
            await pair.client.terminate()
        else:
            pair.client.drop()
        self.left.append(pair.client)
        await pair.twin.terminate()
        if who in self.waiting:
            self.waiting.remove(who)
        await self._serve()

    async def members_die(self) -> None:
        """Who was in a transaction is told so; nobody else sees anything of it."""
        await self.pooler.kill_members()
        for who in [who for who, pair in self.pairs.items() if pair.status != "I"]:
            pair = self.pairs.pop(who)
            assert (await pair.client.trouble()).code in LOST
            await pair.twin.terminate()
        await self._serve()

    async def members_die_during(self, who: int, words: bytes) -> bool:
        """Whether the client heard that its words were done all the same; it leaves in any case."""
        pair = await self.enter(who)
        pair.client.say(words)
        dying = await self.pooler.start_killing()
        try:
            answer = await pair.client.answer()
        except Ended as ended:
            assert ended.args[0].code in LOST
            await self.pairs.pop(who).twin.terminate()
            return False
        finally:
            await self.pooler.are_gone(dying)
        assert (answer.troubles, answer.status) == ([], "I"), answer
        await self.leave(who)
        return True

    async def end(self) -> None:
        """Who waits is served, who is in a transaction leaves it; then all is compared."""
        for who in [who for who, pair in self.pairs.items() if pair.status != "I"]:
            await self.do(who, Deed(phrases.query("rollback")))
        while self.holders:
            await self.end()
        assert not self.waiting
        for who in list(self.pairs):
            await self.leave(who, politely=True)

    async def _serve(self) -> None:
        """Those who wait, in their order, as long as there is a member for them."""
        while self.waiting and self.holders < self.members:
            pair = self.pairs[self.waiting.pop(0)]
            deed, pair.waits = pair.waits, None
            assert deed is not None
            await self._hear(pair, deed)

    async def _hear(self, pair: Pair, deed: Deed) -> None:
        pair.twin.heard.clear()
        pair.twin.say(deed.twins or deed.words)
        await deed.heard(pair.twin)
        await deed.heard(pair.client)
        pair.compared(deed, _said(pair.client), _said(pair.twin))


def _said(speaker: Speaker) -> list[Any]:
    """Parameters are compared by themselves: what was restored may be told a little earlier."""
    return [shown(each) for each in speaker.heard if each.type != messages.PARAMETER]
