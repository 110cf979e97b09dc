"""A compute on this machine is no private client: code of any tenant runs there."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bough.domain.private_networks import BlockedNetworks
from bough.gateway.wire import messages
from security.login_steps import ACCEPTED, PROJECT_UIDS, PendingLogin, begin_login, use_cheap_verifier
from security.os_users import connect_tcp_as
from support import requirements
from support.gateway import ENDPOINT, InProcessGateway, open_gateway
from support.postgres import PostgresServer


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with open_gateway(postgres_server, project_uids=PROJECT_UIDS) as opened:
        use_cheap_verifier(opened)
        yield opened


async def is_blocked(gateway: InProcessGateway, uid: int) -> bool:
    login = await begin_login(gateway, ENDPOINT, sock=connect_tcp_as(uid, gateway.port))
    assert isinstance(login, PendingLogin)
    assert await login.finish() == ACCEPTED  # the password; the network is judged after it
    message = (await login.wire_client.read_message()).type
    login.close()
    return message == messages.ERROR_RESPONSE


async def test_also_a_compute_is_blocked_as_a_public_client(gateway: InProcessGateway) -> None:
    requirements.require_root()
    compute, other = PROJECT_UIDS[0] + 5, 65_533
    for blocked in (BlockedNetworks(public=True), BlockedNetworks(private=True)):
        reply = gateway.control_plane.access_reply
        gateway.control_plane.access_reply = replace(reply, blocked_networks=blocked)
        gateway.worker_services[0].cache.invalidate([ENDPOINT])
        assert await is_blocked(gateway, compute) == blocked.public
        assert await is_blocked(gateway, other) == blocked.private
