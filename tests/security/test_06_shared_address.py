"""Failed logins hold up whoever failed, where it failed: not everybody who shares its address."""

from collections.abc import AsyncIterator

import pytest

import requires
import world
from bough.gateway.limits import ENDPOINTS_OF_CLIENT, FAILURES_OF_CLIENT
from gateway import doorway as doorways
from gateway.doorway import ENDPOINT, Doorway
from security.logins import COMPUTES, HELD_UP, RIGHT, WRONG, logged_in, make_quick
from security.users import tcp_of

ATTACKER, VICTIM = COMPUTES[0] + 3, COMPUTES[0] + 4
OTHER = "ep-calm-sea-b1b2c3d4"


@pytest.fixture
async def doorway(postgres_server: world.PostgresServer) -> AsyncIterator[Doorway]:
    async with doorways.doorway(postgres_server, project_uids=COMPUTES) as opened:
        make_quick(opened)
        yield opened


async def test_a_client_that_fails_at_one_endpoint_is_let_in_at_others(doorway: Doorway) -> None:
    outcomes = {await logged_in(doorway, ENDPOINT, "wrong") for _ in range(FAILURES_OF_CLIENT)}
    assert outcomes == {WRONG}
    assert await logged_in(doorway, ENDPOINT) == HELD_UP
    assert await logged_in(doorway, OTHER) == RIGHT


async def test_a_compute_that_fails_holds_up_nobody_else_on_the_machine(doorway: Doorway) -> None:
    requires.require_root()
    for _ in range(FAILURES_OF_CLIENT):
        assert await logged_in(doorway, ENDPOINT, "wrong", tcp_of(ATTACKER, doorway.port)) == WRONG
    assert await logged_in(doorway, ENDPOINT, sock=tcp_of(ATTACKER, doorway.port)) == HELD_UP
    assert await logged_in(doorway, ENDPOINT, sock=tcp_of(VICTIM, doorway.port)) == RIGHT
    assert await logged_in(doorway, ENDPOINT) == RIGHT


async def test_guesses_at_many_endpoints_are_held_up_where_the_client_was_never_let_in(doorway: Doorway) -> None:
    assert await logged_in(doorway, ENDPOINT) == RIGHT
    for number in range(ENDPOINTS_OF_CLIENT):
        assert await logged_in(doorway, f"ep-calm-sea-{number:08}", "wrong") == WRONG
    assert await logged_in(doorway, OTHER) == HELD_UP
    assert await logged_in(doorway, ENDPOINT) == RIGHT
