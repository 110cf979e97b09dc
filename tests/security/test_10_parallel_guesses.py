"""Logins that wait side by side cannot guess more often than one after another."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from bough.gateway.limits import MAX_FAILURES_PER_CLIENT
from bough.gateway.pending_logins import MAX_PENDING_LOGINS_PER_CLIENT
from security.login_steps import (
    ACCEPTED,
    INVALID_PASSWORD,
    TOO_MANY_CONNECTIONS,
    PendingLogin,
    begin_login,
    log_in,
    use_cheap_verifier,
)
from support import gateway as doorways
from support.gateway import ENDPOINT, PASSWORD, InProcessGateway
from support.postgres import PostgresServer


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with doorways.open_gateway(postgres_server) as opened:
        use_cheap_verifier(opened)
        yield opened


async def many_parked(doorway: InProcessGateway, count: int, password: str) -> list[PendingLogin]:
    found = [await begin_login(doorway, ENDPOINT, password) for _ in range(count)]
    return [each for each in found if isinstance(each, PendingLogin)]


async def test_no_more_than_the_limit_are_judged(gateway: InProcessGateway, is_long_run: bool) -> None:
    waiting = await many_parked(
        gateway, MAX_PENDING_LOGINS_PER_CLIENT - 1 if is_long_run else MAX_FAILURES_PER_CLIENT + 20, "wrong"
    )
    right = await many_parked(gateway, 1, PASSWORD)
    assert len(right) == 1
    outcomes = Counter([await each.finish() for each in waiting])
    assert outcomes == {
        INVALID_PASSWORD: MAX_FAILURES_PER_CLIENT,
        TOO_MANY_CONNECTIONS: len(waiting) - MAX_FAILURES_PER_CLIENT,
    }
    assert await right[0].finish() == TOO_MANY_CONNECTIONS


async def test_logins_that_are_left_unanswered_count(gateway: InProcessGateway) -> None:
    for each in await many_parked(gateway, MAX_FAILURES_PER_CLIENT, "wrong"):
        each.close()
        await each.wire_client.writer.wait_closed()
    while (outcome := await log_in(gateway, ENDPOINT)) == ACCEPTED:
        pass  # the gateway has not seen the last of them go
    assert outcome == TOO_MANY_CONNECTIONS


async def test_right_passwords_side_by_side_are_all_let_in(gateway: InProcessGateway) -> None:
    waiting = await many_parked(gateway, MAX_FAILURES_PER_CLIENT + 5, PASSWORD)
    assert Counter([await each.finish() for each in waiting]) == {ACCEPTED: MAX_FAILURES_PER_CLIENT + 5}
