"""Rule 10: concurrent logins get no more password guesses than consecutive ones."""

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
from support.gateway import ENDPOINT, PASSWORD, InProcessGateway, open_gateway
from support.postgres import PostgresServer


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with open_gateway(postgres_server) as opened:
        use_cheap_verifier(opened)
        yield opened


async def begin_logins(gateway: InProcessGateway, count: int, password: str) -> list[PendingLogin]:
    logins = [await begin_login(gateway, ENDPOINT, password) for _ in range(count)]
    return [login for login in logins if isinstance(login, PendingLogin)]


async def test_no_more_than_the_limit_are_judged(gateway: InProcessGateway, is_long_run: bool) -> None:
    pending = await begin_logins(
        gateway, MAX_PENDING_LOGINS_PER_CLIENT - 1 if is_long_run else MAX_FAILURES_PER_CLIENT + 20, "wrong"
    )
    correct = await begin_logins(gateway, 1, PASSWORD)
    assert len(correct) == 1
    outcomes = Counter([await login.finish() for login in pending])
    assert outcomes == {
        INVALID_PASSWORD: MAX_FAILURES_PER_CLIENT,
        TOO_MANY_CONNECTIONS: len(pending) - MAX_FAILURES_PER_CLIENT,
    }
    assert await correct[0].finish() == TOO_MANY_CONNECTIONS


async def test_logins_that_are_left_unanswered_count(gateway: InProcessGateway) -> None:
    for login in await begin_logins(gateway, MAX_FAILURES_PER_CLIENT, "wrong"):
        login.close()
        await login.wire_client.writer.wait_closed()
    while (outcome := await log_in(gateway, ENDPOINT)) == ACCEPTED:
        pass  # the gateway has not yet noticed all closed connections
    assert outcome == TOO_MANY_CONNECTIONS


async def test_right_passwords_side_by_side_are_all_let_in(gateway: InProcessGateway) -> None:
    pending = await begin_logins(gateway, MAX_FAILURES_PER_CLIENT + 5, PASSWORD)
    assert Counter([await login.finish() for login in pending]) == {ACCEPTED: MAX_FAILURES_PER_CLIENT + 5}
