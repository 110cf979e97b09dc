"""Control can end the sessions of an endpoint with a reason."""

import asyncio

import psycopg
import pytest

from bough.control.gateway import notify
from bough.ids import EndpointId
from gateway.test_handshake import BY_NAME
from support.gateway import ENDPOINT, HOST, PASSWORD, InProcessGateway

WHY = "the branch was restored to an earlier moment"


async def _connect(opened_gateway: InProcessGateway, host: str = HOST) -> psycopg.AsyncConnection:
    whole = BY_NAME.format(port=opened_gateway.port, folder=opened_gateway.folder, host=host)
    return await psycopg.AsyncConnection.connect(whole, password=PASSWORD, autocommit=True)


@pytest.mark.parametrize("host", [HOST, HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")])
async def test_who_waits_for_nothing_is_told_why_and_let_go(gateway: InProcessGateway, host: str) -> None:
    client = await _connect(gateway, host)
    await client.execute("select 1")
    await notify.end_sessions(gateway.folder, [ENDPOINT], WHY)
    with pytest.raises(psycopg.errors.AdminShutdown, match=WHY) as rejected:
        await client.execute("select 1")
    assert rejected.value.diag.message_hint == "Connect again."
    again = await _connect(gateway, host)
    await again.execute("select 1")
    await again.close()


async def test_who_is_in_the_middle_of_something_hears_it_from_postgres(gateway: InProcessGateway) -> None:
    client = await _connect(gateway)
    running = asyncio.create_task(client.execute("select pg_sleep(0.3), 7"))
    await asyncio.sleep(0.1)
    await notify.end_sessions(gateway.folder, [ENDPOINT], WHY)
    assert await (await running).fetchone() == ("", 7)
    await client.close()


async def test_clients_of_others_notice_nothing(gateway: InProcessGateway) -> None:
    client = await _connect(gateway)
    await notify.end_sessions(gateway.folder, [EndpointId("ep-somebody-else-00000000")], WHY)
    await client.execute("select 1")
    await client.close()
