"""Logins that wait side by side cannot guess more often than one after another."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest

import world
from bough.gateway.limits import FAILURES_OF_CLIENT
from bough.gateway.newcomers import NEWCOMERS_OF_CLIENT
from gateway import doorway as doorways
from gateway.doorway import ENDPOINT, PASSWORD, Doorway
from security.logins import HELD_UP, RIGHT, WRONG, Parked, logged_in, make_quick, parked


@pytest.fixture
async def doorway(postgres_server: world.PostgresServer) -> AsyncIterator[Doorway]:
    async with doorways.doorway(postgres_server) as opened:
        make_quick(opened)
        yield opened


async def many_parked(doorway: Doorway, count: int, password: str) -> list[Parked]:
    found = [await parked(doorway, ENDPOINT, password) for _ in range(count)]
    return [each for each in found if isinstance(each, Parked)]


async def test_no_more_than_the_limit_are_judged(doorway: Doorway, long: bool) -> None:
    waiting = await many_parked(doorway, NEWCOMERS_OF_CLIENT - 1 if long else FAILURES_OF_CLIENT + 20, "wrong")
    right = await many_parked(doorway, 1, PASSWORD)
    assert len(right) == 1
    outcomes = Counter([await each.answer() for each in waiting])
    assert outcomes == {WRONG: FAILURES_OF_CLIENT, HELD_UP: len(waiting) - FAILURES_OF_CLIENT}
    assert await right[0].answer() == HELD_UP


async def test_logins_that_are_left_unanswered_count(doorway: Doorway) -> None:
    for each in await many_parked(doorway, FAILURES_OF_CLIENT, "wrong"):
        each.leave()
        await each.wire.writer.wait_closed()
    while (outcome := await logged_in(doorway, ENDPOINT)) == RIGHT:
        pass  # the gateway has not seen the last of them go
    assert outcome == HELD_UP


async def test_right_passwords_side_by_side_are_all_let_in(doorway: Doorway) -> None:
    waiting = await many_parked(doorway, FAILURES_OF_CLIENT + 5, PASSWORD)
    assert Counter([await each.answer() for each in waiting]) == {RIGHT: FAILURES_OF_CLIENT + 5}
