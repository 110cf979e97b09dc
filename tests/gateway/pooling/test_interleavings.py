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

from gateway.pooling import reference_database
from gateway.pooling.random_steps import (
    BATCHES,
    CHAINS,
    CLIENT_NUMBERS,
    CLIENTS,
    ERRORS,
    HIDDEN_SETTING_QUERY,
    NAMES,
    PIECES,
    RARELY,
    REJECTED_QUERY,
    SETTINGS,
    SHOW_APPLICATION_NAME,
    STATE_QUERY,
    STATEMENT_TEXTS,
    TEMPORARY,
    TRANSACTION_STATEMENTS,
    TRANSACTIONS,
    insert_both_halves,
)
from gateway.pooling.reference_pairs import END_MARKER, ReferencePairs, Step
from support import pooler as poolers
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_messages import (
    COPY_DONE,
    SYNC,
    bind,
    bind_and_execute,
    close,
    copy_data,
    describe,
    execute,
    extended_query,
    parse,
    query,
)


class Interleavings(RuleBasedStateMachine):
    pooler: ClassVar[Pooler]
    runner: ClassVar[asyncio.Runner]
    members: ClassVar[int]
    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.twins = ReferencePairs(self.pooler, self.members)
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
        return not self.is_busy(who) and (self.status(who) != "I" or self.twins.count_in_transaction < self.members)

    def has_table(self, who: int) -> bool:
        return who in self.twins.pairs and self.twins.pairs[who].has_temporary_table

    def do(self, who: int, words: bytes, twins: bytes = b"", **kind: bool) -> None:
        """Nothing for now, when it waits for an answer."""
        if not self.is_busy(who):
            self.run(self.twins.run_step(who, Step(words, twins, **kind)))

    @rule(who=CLIENT_NUMBERS, words=st.sampled_from(TRANSACTIONS), is_simple=st.booleans())
    def begins_or_ends(self, who: int, words: str, is_simple: bool) -> None:
        if not (words in CHAINS and self.has_table(who)):
            self.do(who, query(words) if is_simple or ";" in words else extended_query(words) + SYNC)

    @rule(who=CLIENT_NUMBERS, way=st.sampled_from(["simple", "extended", "copy", "failing", "two"]))
    def inserts(self, who: int, way: str) -> None:
        number = next(self.numbers)
        words = f"insert into tokens values ({number})"
        ways = {
            "simple": query(words),
            "extended": extended_query("insert into tokens values ($1)", str(number)) + SYNC,
            "copy": query("copy tokens from stdin") + copy_data(f"{number}\n".encode()) + COPY_DONE,
            "failing": extended_query(words) + extended_query("select 1/0") + SYNC,
            "two": extended_query(words) + extended_query(f"insert into tokens values ({next(self.numbers)})") + SYNC,
        }
        self.do(who, ways[way])

    @rule(who=CLIENT_NUMBERS, words=st.sampled_from(ERRORS), is_simple=st.booleans())
    def errs(self, who: int, words: str, is_simple: bool) -> None:
        self.do(who, query(words) if is_simple else extended_query(words) + SYNC)

    @rule(who=CLIENT_NUMBERS, name=NAMES, text=st.sampled_from(STATEMENT_TEXTS))
    def prepares(self, who: int, name: str, text: str) -> None:
        """A name that is taken is refused before the text is read, and by Postgres after it; so one fault at a time."""
        may_fail = "from t" in text or self.status(who) == "E"
        self.do(who, (close("S", name) if may_fail else b"") + parse(name, text) + SYNC)

    @rule(who=CLIENT_NUMBERS, name=NAMES, values=st.sampled_from([[], [], ["1"]]))
    def uses(self, who: int, name: str, values: list[str]) -> None:
        self.do(who, bind_and_execute(name, *values) + SYNC)

    @rule(
        who=CLIENT_NUMBERS,
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

    @rule(who=CLIENT_NUMBERS, words=st.sampled_from(SETTINGS), is_simple=st.booleans())
    def sets(self, who: int, words: str, is_simple: bool) -> None:
        told = words.format(worker=f"{self.pooler.database}_{reference_database.WORKER}")
        self.do(who, query(told) if is_simple else extended_query(told) + SYNC)

    @rule(who=CLIENT_NUMBERS, way=st.sampled_from(["create", "create", "listen", *TEMPORARY]))
    def makes_what_ends_with_its_transaction(self, who: int, way: str) -> None:
        if way == "listen":
            self.do(who, query("listen news"), REJECTED_QUERY, is_refusal=True)
        elif way != "create":
            self.do(who, query(way))
        elif self.status(who) == "I":
            self.do(who, query("create temp table t (id integer)"), REJECTED_QUERY, is_refusal=True)
        else:
            made = "create temp table t (id integer)"
            self.do(who, query(made), query(f"{made} on commit drop"))
            self.twins.pairs[who].has_temporary_table = True

    @rule(who=CLIENT_NUMBERS)
    def hides_a_setting(self, who: int) -> None:
        self.do(who, query("select hide()"))
        if who in self.twins.pairs:
            self.twins.pairs[who].has_hidden_setting = True

    @rule(who=CLIENT_NUMBERS, is_simple=st.booleans())
    def looks(self, who: int, is_simple: bool) -> None:
        self.do(who, query(STATE_QUERY) if is_simple else extended_query(STATE_QUERY) + SYNC)

    @rule(who=CLIENT_NUMBERS)
    def looks_at_its_name(self, who: int) -> None:
        """In a transaction that has reset it, it need not be its own."""
        if self.status(who) == "I":
            self.do(who, query(SHOW_APPLICATION_NAME))

    @rule(who=CLIENT_NUMBERS)
    def looks_for_what_others_hide(self, who: int) -> None:
        if who in self.twins.pairs and not self.twins.pairs[who].has_hidden_setting:
            self.do(who, query(HIDDEN_SETTING_QUERY))

    @rule(who=CLIENT_NUMBERS)
    def counts(self, who: int) -> None:
        self.do(who, query("select count(*), coalesce(sum(id), 0) from tokens"))

    @rule(
        who=CLIENT_NUMBERS,
        works=st.lists(st.sampled_from(TRANSACTION_STATEMENTS), max_size=5),
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
            self.run(self.twins.disconnect(who))
        else:
            self.do(who, query(end))

    @rule(who=CLIENT_NUMBERS, batch=BATCHES)
    def says_much_at_once(self, who: int, batch: list[str]) -> None:
        """Not while others wait: they would be served in the middle of it, which the twins cannot foresee."""
        if self.can_begin(who) and not self.twins.waiting and not self.has_table(who):
            self.do(who, b"".join(PIECES[piece] for piece in batch) + END_MARKER, is_marked=True)

    @rule(who=CLIENT_NUMBERS, politely=st.booleans(), is_to=RARELY)
    def leaves(self, who: int, politely: bool, is_to: bool) -> None:
        if is_to and who in self.twins.pairs and not self.is_busy(who):
            self.run(self.twins.disconnect(who, politely=politely))

    @rule(who=CLIENT_NUMBERS, turns=st.integers(0, 6), is_batch=st.booleans(), is_to=RARELY)
    def leaves_in_the_middle(self, who: int, turns: int, is_batch: bool, is_to: bool) -> None:
        if is_to and who in self.twins.pairs and not self.is_busy(who) and self.status(who) == "I":
            self.run(self.twins.disconnect(who, insert_both_halves(next(self.numbers), is_batch), turns=turns))

    @rule(are_to=RARELY)
    def members_die(self, are_to: bool) -> None:
        if are_to:
            self.run(self.twins.kill_server_connections())

    @rule(who=CLIENT_NUMBERS, is_batch=st.booleans(), are_to=RARELY)
    def members_die_in_the_middle(self, who: int, is_batch: bool, are_to: bool) -> None:
        """What is told as done must be there, and whatever is there must be there once."""
        if self.twins.count_in_transaction or not are_to:
            return
        number = next(self.numbers)

        async def during() -> None:
            if await self.twins.kill_server_connections_during(who, insert_both_halves(number, is_batch)):
                self.done.add(number)

        self.run(during())

    @rule(which=st.integers(0, CLIENTS))
    def cancels(self, which: int) -> None:
        if waiting := self.twins.waiting:
            self.run(self.twins.cancel_wait(waiting[which % len(waiting)]))

    def teardown(self) -> None:
        try:
            self.run(self.twins.finish())
            self.run(self._compared())
        finally:
            self.run(self._forgotten())

    async def _compared(self) -> None:
        """Every token that was committed is there once, and no other; last breaths left all or nothing."""
        await self.pooler.kill_server_connections()
        theirs = await reference_database.list_tokens(
            self.pooler, reference_database.reference_database_name(self.pooler)
        )
        assert await reference_database.list_tokens(self.pooler, self.pooler.database) == theirs
        found = await reference_database.list_halves(self.pooler)
        assert self.done <= found.keys()
        assert {tuple(each) for each in found.values()} <= {(1, 2)}, found

    async def _forgotten(self) -> None:
        for pair in self.twins.pairs.values():
            pair.client.reset_connection()
            pair.reference.wire.close()
        await reference_database.reset_databases(self.pooler)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("members", [1, 2])
def test_each_client_hears_what_it_would_hear_alone(
    postgres_server: PostgresServer, members: int, is_long_run: bool
) -> None:
    tier = settings(
        max_examples=400 if is_long_run else 25,
        stateful_step_count=120 if is_long_run else 40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if is_long_run else [])],  # to shrink what hangs takes long
    )
    with asyncio.Runner() as running:
        context = poolers.open_pooler(postgres_server)
        opened = running.run(context.__aenter__())
        try:
            running.run(reference_database.create_databases(opened))
            opened.configure(servers=members, servers_per_pool=members)
            attributes = {"pooler": opened, "runner": running, "members": members}
            run_state_machine_as_test(type("Interleavings", (Interleavings,), attributes), settings=tier)
        finally:
            running.run(context.__aexit__(None, None, None))
