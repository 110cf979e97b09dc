"""Chance leads a few clients over fewer members; each must hear what it would hear in a session of its own.

Hypothesis makes the steps and, when one goes wrong, fewer of them that still do; a step that cannot be is passed over.
All examples share an event loop, a gateway and a Postgres; members end with each example, so that the same steps do the
same again.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import world
from gateway.pooling import pooler as poolers
from gateway.pooling import two_databases
from gateway.pooling.phrases import COPY_DONE, SYNC, ask, bind, close, copy_data, describe, execute, parse, query, use
from gateway.pooling.pooler import Pooler
from gateway.pooling.steps import (
    BATCHES,
    CHAINS,
    CLIENTS,
    ERRORS,
    HIDDEN,
    LOOK,
    NAME,
    NAMES,
    PIECES,
    REFUSED,
    SELDOM,
    SETTINGS,
    TEMPORARY,
    TEXTS,
    TRANSACTIONS,
    WHO,
    WORKS,
    halves,
)
from gateway.pooling.twins import MARK, Deed, Twins


class Interleavings(RuleBasedStateMachine):
    pooler: ClassVar[Pooler]
    runner: ClassVar[asyncio.Runner]
    members: ClassVar[int]
    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins(self.pooler, self.members)
        self.done: set[int] = set()  # what clients were told of their halves

    def run(self, deed: Awaitable[None]) -> None:
        async def done() -> None:
            await deed

        self.runner.run(done())

    def is_busy(self, who: int) -> bool:
        return who in self.twins.waiting

    def status(self, who: int) -> str:
        return self.twins.pairs[who].status if who in self.twins.pairs else "I"

    def can_begin(self, who: int) -> bool:
        """Without waiting for others."""
        return not self.is_busy(who) and (self.status(who) != "I" or self.twins.holders < self.members)

    def has_table(self, who: int) -> bool:
        return who in self.twins.pairs and self.twins.pairs[who].has_table

    def do(self, who: int, words: bytes, twins: bytes = b"", **kind: bool) -> None:
        """Nothing for now, when it waits for an answer."""
        if not self.is_busy(who):
            self.run(self.twins.do(who, Deed(words, twins, **kind)))

    @rule(who=WHO, words=st.sampled_from(TRANSACTIONS), is_simple=st.booleans())
    def begins_or_ends(self, who: int, words: str, is_simple: bool) -> None:
        if not (words in CHAINS and self.has_table(who)):
            self.do(who, query(words) if is_simple or ";" in words else ask(words) + SYNC)

    @rule(who=WHO, way=st.sampled_from(["simple", "extended", "copy", "failing", "two"]))
    def inserts(self, who: int, way: str) -> None:
        number = next(self.numbers)
        words = f"insert into tokens values ({number})"
        ways = {
            "simple": query(words),
            "extended": ask("insert into tokens values ($1)", str(number)) + SYNC,
            "copy": query("copy tokens from stdin") + copy_data(f"{number}\n".encode()) + COPY_DONE,
            "failing": ask(words) + ask("select 1/0") + SYNC,
            "two": ask(words) + ask(f"insert into tokens values ({next(self.numbers)})") + SYNC,
        }
        self.do(who, ways[way])

    @rule(who=WHO, words=st.sampled_from(ERRORS), is_simple=st.booleans())
    def errs(self, who: int, words: str, is_simple: bool) -> None:
        self.do(who, query(words) if is_simple else ask(words) + SYNC)

    @rule(who=WHO, name=NAMES, text=st.sampled_from(TEXTS))
    def prepares(self, who: int, name: str, text: str) -> None:
        """A name that is taken is refused before the text is read, and by Postgres after it; so one fault at a time."""
        may_fail = "from t" in text or self.status(who) == "E"
        self.do(who, (close("S", name) if may_fail else b"") + parse(name, text) + SYNC)

    @rule(who=WHO, name=NAMES, values=st.sampled_from([[], [], ["1"]]))
    def uses(self, who: int, name: str, values: list[str]) -> None:
        self.do(who, use(name, *values) + SYNC)

    @rule(
        who=WHO,
        name=NAMES,
        way=st.sampled_from(["describe", "close", "deallocate", "all", "discard", "portal", "fetch"]),
    )
    def handles(self, who: int, name: str, way: str) -> None:
        ways = {
            "describe": describe("S", name) + SYNC,
            "close": close("S", name) + SYNC,
            "deallocate": query(f"deallocate {name or 's'}"),
            "all": query("deallocate all"),
            "discard": query("discard all"),
            "portal": bind("p", name) + execute("p", 1) + SYNC,
            "fetch": execute("p", 1) + SYNC,
        }
        self.do(who, ways[way])

    @rule(who=WHO, words=st.sampled_from(SETTINGS), is_simple=st.booleans())
    def sets(self, who: int, words: str, is_simple: bool) -> None:
        told = words.format(worker=f"{self.pooler.database}_{two_databases.WORKER}")
        self.do(who, query(told) if is_simple else ask(told) + SYNC)

    @rule(who=WHO, way=st.sampled_from(["create", "create", "listen", *TEMPORARY]))
    def makes_what_ends_with_its_transaction(self, who: int, way: str) -> None:
        if way == "listen":
            self.do(who, query("listen news"), REFUSED, is_refusal=True)
        elif way != "create":
            self.do(who, query(way))
        elif self.status(who) == "I":
            self.do(who, query("create temp table t (id integer)"), REFUSED, is_refusal=True)
        else:
            made = "create temp table t (id integer)"
            self.do(who, query(made), query(f"{made} on commit drop"))
            self.twins.pairs[who].has_table = True

    @rule(who=WHO)
    def hides_a_setting(self, who: int) -> None:
        self.do(who, query("select hide()"))
        if who in self.twins.pairs:
            self.twins.pairs[who].hides = True

    @rule(who=WHO, is_simple=st.booleans())
    def looks(self, who: int, is_simple: bool) -> None:
        self.do(who, query(LOOK) if is_simple else ask(LOOK) + SYNC)

    @rule(who=WHO)
    def looks_at_its_name(self, who: int) -> None:
        """In a transaction that has reset it, it need not be its own."""
        if self.status(who) == "I":
            self.do(who, query(NAME))

    @rule(who=WHO)
    def looks_for_what_others_hide(self, who: int) -> None:
        if who in self.twins.pairs and not self.twins.pairs[who].hides:
            self.do(who, query(HIDDEN))

    @rule(who=WHO)
    def counts(self, who: int) -> None:
        self.do(who, query("select count(*), coalesce(sum(id), 0) from tokens"))

    @rule(
        who=WHO,
        works=st.lists(st.sampled_from(WORKS), max_size=5),
        end=st.sampled_from(["commit", "rollback", "leave"]),
    )
    def does_a_transaction(self, who: int, works: list[str], end: str) -> None:
        """From its beginning to its end, if it can begin: few would get so far one step at a time."""
        if not self.can_begin(who):
            return
        self.do(who, query("begin"))
        for work in works:
            if work == "insert":
                self.inserts(who, "simple")
            elif work == "make":
                self.makes_what_ends_with_its_transaction(who, "create")
            else:
                self.do(who, query(work))
        if end == "leave":
            self.run(self.twins.leave(who))
        else:
            self.do(who, query(end))

    @rule(who=WHO, batch=BATCHES)
    def says_much_at_once(self, who: int, batch: list[str]) -> None:
        """Not while others wait: they would be served in the middle of it, which the twins cannot foresee."""
        if self.can_begin(who) and not self.twins.waiting and not self.has_table(who):
            self.do(who, b"".join(PIECES[piece] for piece in batch) + MARK, is_marked=True)

    @rule(who=WHO, politely=st.booleans(), is_to=SELDOM)
    def leaves(self, who: int, politely: bool, is_to: bool) -> None:
        if is_to and who in self.twins.pairs and not self.is_busy(who):
            self.run(self.twins.leave(who, politely=politely))

    @rule(who=WHO, turns=st.integers(0, 6), is_batch=st.booleans(), is_to=SELDOM)
    def leaves_in_the_middle(self, who: int, turns: int, is_batch: bool, is_to: bool) -> None:
        if is_to and who in self.twins.pairs and not self.is_busy(who) and self.status(who) == "I":
            self.run(self.twins.leave(who, halves(next(self.numbers), is_batch), turns=turns))

    @rule(are_to=SELDOM)
    def members_die(self, are_to: bool) -> None:
        if are_to:
            self.run(self.twins.members_die())

    @rule(who=WHO, is_batch=st.booleans(), are_to=SELDOM)
    def members_die_in_the_middle(self, who: int, is_batch: bool, are_to: bool) -> None:
        """What is told as done must be there, and whatever is there must be there once."""
        if self.twins.holders or not are_to:
            return
        number = next(self.numbers)

        async def during() -> None:
            if await self.twins.members_die_during(who, halves(number, is_batch)):
                self.done.add(number)

        self.run(during())

    @rule(which=st.integers(0, CLIENTS))
    def cancels(self, which: int) -> None:
        if waiting := self.twins.waiting:
            self.run(self.twins.cancel_wait(waiting[which % len(waiting)]))

    def teardown(self) -> None:
        try:
            self.run(self.twins.end())
            self.run(self._compared())
        finally:
            self.run(self._forgotten())

    async def _compared(self) -> None:
        """Every token that was committed is there once, and no other; last breaths left all or nothing."""
        await self.pooler.kill_members()
        theirs = await two_databases.tokens(self.pooler, two_databases.twins_database(self.pooler))
        assert await two_databases.tokens(self.pooler, self.pooler.database) == theirs
        found = await two_databases.halves(self.pooler)
        assert self.done <= found.keys()
        assert {tuple(each) for each in found.values()} <= {(1, 2)}, found

    async def _forgotten(self) -> None:
        for pair in self.twins.pairs.values():
            pair.client.drop()
            pair.twin.wire.close()
        await two_databases.forget(self.pooler)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("members", [1, 2])
def test_each_client_hears_what_it_would_hear_alone(
    postgres_server: world.PostgresServer, members: int, long: bool
) -> None:
    tier = settings(
        max_examples=400 if long else 25,
        stateful_step_count=120 if long else 40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if long else [])],  # to shrink what hangs takes long
    )
    with asyncio.Runner() as running:
        context = poolers.opened(postgres_server)
        opened = running.run(context.__aenter__())
        try:
            running.run(two_databases.prepare(opened))
            opened.set(servers=members, servers_per_pool=members)
            attributes = {"pooler": opened, "runner": running, "members": members}
            run_state_machine_as_test(type("Interleavings", (Interleavings,), attributes), settings=tier)
        finally:
            running.run(context.__aexit__(None, None, None))
