"""Blocked networks: public and private clients at direct and pooled hosts, and their traffic counted apart.

A loopback address that is not in `private_networks` is a public one.
"""

import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bough.domain.gateway_protocol import Access
from bough.domain.pooler import PoolSettings
from bough.domain.private_networks import BlockedNetworks
from bough.gateway.wire import messages
from support.control_plane import make_access
from support.gateway import ENDPOINT, HOST, VERIFIER, InProcessGateway, WireClient, open_gateway
from support.postgres import PostgresServer

PRIVATE, PUBLIC = "127.0.0.2", "127.0.0.1"
POOLED_HOST = HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")
SOCKET_CONNINFO = "host={folder} user=store dbname=postgres options=endpoint=" + ENDPOINT


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with open_gateway(postgres_server, private_networks=[f"{PRIVATE}/32"]) as opened:
        yield opened


def set_access(gateway: InProcessGateway, **changes: object) -> None:
    access: Access = replace(make_access(VERIFIER), pool_settings=PoolSettings(servers=2), **changes)  # type: ignore[arg-type]
    gateway.control_plane.access_reply = access
    gateway.worker_services[0].cache.invalidate([ENDPOINT])


async def begin(gateway: InProcessGateway, address: str, host: str = HOST, password: str | None = None) -> WireClient:
    sock = socket.create_connection(("127.0.0.1", gateway.port), source_address=(address, 0))
    sock.setblocking(False)
    wire = await gateway.open_wire_client(sock)
    await wire.start_tls(host, alpn="postgresql")
    wire.send_startup(0)
    await (wire.authenticate() if password is None else wire.authenticate(password))
    return wire


async def find_error(gateway: InProcessGateway, address: str, host: str = HOST) -> messages.ErrorResponse | None:
    wire = await begin(gateway, address, host)
    while True:
        message = await wire.read_message()
        if message.type == messages.ERROR_RESPONSE:
            return messages.parse_error_response(message.body)
        if message.type == messages.READY_FOR_QUERY:
            wire.close()
            return None


@pytest.mark.parametrize("host", [HOST, POOLED_HOST], ids=["direct", "pooled"])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("private", [False, True])
async def test_each_network_is_blocked_alone_or_both(
    gateway: InProcessGateway, *, host: str, public: bool, private: bool
) -> None:
    set_access(gateway, blocked_networks=BlockedNetworks(public=public, private=private))
    for address, is_blocked in ((PUBLIC, public), (PRIVATE, private)):
        error = await find_error(gateway, address, host)
        assert (error is not None) == is_blocked
        if error is not None:
            assert error.sqlstate == "28000"
            assert "Connections from this network are blocked" in error.message
            assert address not in error.message
    assert await gateway.query_with_libpq(SOCKET_CONNINFO) == "1"  # the local socket is never blocked


async def test_allowed_ips_do_not_lift_a_block_and_still_apply(gateway: InProcessGateway) -> None:
    set_access(gateway, blocked_networks=BlockedNetworks(public=True), allowed_networks=(f"{PUBLIC}/32",))
    blocked, not_allowed = await find_error(gateway, PUBLIC), await find_error(gateway, PRIVATE)
    assert blocked is not None
    assert "block_public_connections" in blocked.message
    assert not_allowed is not None
    assert f"{PRIVATE} is not allowed by the project's allowed_ips" in not_allowed.message


async def test_a_wrong_password_reveals_no_block(gateway: InProcessGateway) -> None:
    set_access(gateway, blocked_networks=BlockedNetworks(public=True, private=True))
    wire = await begin(gateway, PUBLIC, password="wrong")
    assert (await wire.read_error()).sqlstate == "28P01"


async def test_open_sessions_stay_when_their_network_is_blocked(gateway: InProcessGateway) -> None:
    set_access(gateway)
    wire = await begin(gateway, PUBLIC)
    await wire.read_until(messages.READY_FOR_QUERY)
    set_access(gateway, blocked_networks=BlockedNetworks(public=True))
    wire.send(b"Q", b"select 1\0")
    assert (await wire.read_until(messages.READY_FOR_QUERY))[-1].type == messages.READY_FOR_QUERY
    assert await find_error(gateway, PUBLIC) is not None


async def test_loopback_is_private_without_the_setting(postgres_server: PostgresServer) -> None:
    async with open_gateway(postgres_server) as gateway:
        set_access(gateway, blocked_networks=BlockedNetworks(public=True))
        assert await find_error(gateway, PUBLIC) is None
        set_access(gateway, blocked_networks=BlockedNetworks(private=True))
        error = await find_error(gateway, PUBLIC)
        assert error is not None
        assert "block_vpc_connections" in error.message


async def use_connections(gateway: InProcessGateway, host: str) -> list[tuple[int, int, int, int]]:
    """Send a query from each network; return the bytes that are reported after each of the two."""
    activity, found = gateway.worker_services[0].activity, []
    for address in (PUBLIC, PRIVATE):
        wire = await begin(gateway, address, host)
        await wire.read_until(messages.READY_FOR_QUERY)
        wire.send(b"Q", b"select repeat('x', 1000)\0")
        await wire.read_until(messages.READY_FOR_QUERY)
        await activity.report()
        (report,) = gateway.control_plane.reports[-1].endpoints
        found.append((report.bytes_in, report.bytes_out, report.private_in, report.private_out))
    return found


@pytest.mark.parametrize("host", [HOST, POOLED_HOST], ids=["direct", "pooled"])
async def test_traffic_of_private_networks_is_a_part_of_all(gateway: InProcessGateway, host: str) -> None:
    set_access(gateway)
    public, private = await use_connections(gateway, host)
    assert public[1] > 1000
    assert public[2:] == (0, 0)
    assert private[1] > 1000
    assert private[2:] == private[:2]


async def test_traffic_is_not_counted_apart_without_the_setting(postgres_server: PostgresServer) -> None:
    async with open_gateway(postgres_server) as gateway:
        set_access(gateway)
        assert [each[2:] for each in await use_connections(gateway, HOST)] == [(0, 0), (0, 0)]
