"""Rule 6: failed logins delay the client that failed at that endpoint, not all clients with its address."""

from collections.abc import AsyncIterator

import pytest

from bough.gateway.limits import MAX_FAILED_ENDPOINTS_PER_CLIENT, MAX_FAILURES_PER_CLIENT
from security.login_steps import (
    ACCEPTED,
    INVALID_PASSWORD,
    PROJECT_UIDS,
    TOO_MANY_CONNECTIONS,
    log_in,
    use_cheap_verifier,
)
from security.os_users import connect_tcp_as
from support import requirements
from support.gateway import ENDPOINT, InProcessGateway, open_gateway
from support.postgres import PostgresServer

ATTACKER, VICTIM = PROJECT_UIDS[0] + 3, PROJECT_UIDS[0] + 4
OTHER_ENDPOINT = "ep-calm-sea-b1b2c3d4"


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with open_gateway(postgres_server, project_uids=PROJECT_UIDS) as opened:
        use_cheap_verifier(opened)
        yield opened


async def test_a_client_that_fails_at_one_endpoint_is_let_in_at_others(gateway: InProcessGateway) -> None:
    outcomes = {await log_in(gateway, ENDPOINT, "wrong") for _ in range(MAX_FAILURES_PER_CLIENT)}
    assert outcomes == {INVALID_PASSWORD}
    assert await log_in(gateway, ENDPOINT) == TOO_MANY_CONNECTIONS
    assert await log_in(gateway, OTHER_ENDPOINT) == ACCEPTED


async def test_a_compute_that_fails_holds_up_nobody_else_on_the_machine(gateway: InProcessGateway) -> None:
    requirements.require_root()
    for _ in range(MAX_FAILURES_PER_CLIENT):
        assert await log_in(gateway, ENDPOINT, "wrong", connect_tcp_as(ATTACKER, gateway.port)) == INVALID_PASSWORD
    assert await log_in(gateway, ENDPOINT, sock=connect_tcp_as(ATTACKER, gateway.port)) == TOO_MANY_CONNECTIONS
    assert await log_in(gateway, ENDPOINT, sock=connect_tcp_as(VICTIM, gateway.port)) == ACCEPTED
    assert await log_in(gateway, ENDPOINT) == ACCEPTED


async def test_guesses_at_many_endpoints_are_held_up_where_the_client_was_never_let_in(
    gateway: InProcessGateway,
) -> None:
    assert await log_in(gateway, ENDPOINT) == ACCEPTED
    for number in range(MAX_FAILED_ENDPOINTS_PER_CLIENT):
        assert await log_in(gateway, f"ep-calm-sea-{number:08}", "wrong") == INVALID_PASSWORD
    assert await log_in(gateway, OTHER_ENDPOINT) == TOO_MANY_CONNECTIONS
    assert await log_in(gateway, ENDPOINT) == ACCEPTED
