"""Logins: SCRAM with and without channel binding, and what an unknown client can find out."""

from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bough import clock
from bough.domain.pooler import PoolSettings
from bough.gateway import limits
from bough.gateway.wire import messages
from bough.postgres.scram import scram_verifier
from support.control_plane import make_access
from support.gateway import DATABASE, ENDPOINT, HOST, PASSWORD, ROLE, InProcessGateway, WireClient

POOLED_HOST = HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")
WRONG_PASSWORD = messages.ErrorResponse(sqlstate="28P01", message=f'password authentication failed for user "{ROLE}"')


async def start_login(opened_gateway: InProcessGateway, **parameters: str) -> WireClient:
    wire = await opened_gateway.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    wire.send_startup(0, **parameters)
    return wire


@pytest.mark.parametrize("binds", [True, False])
async def test_the_right_password_enters_and_the_server_proves_itself_too(
    gateway: InProcessGateway, binds: bool
) -> None:
    wire = await start_login(gateway)
    await wire.authenticate(binds=binds)
    received = await wire.read_until(messages.READY_FOR_QUERY)
    assert received[0].body[:4] == (12).to_bytes(4)  # SASLFinal, before AuthenticationOk
    assert received[1].body == b"\0\0\0\0"
    wire.close()


@pytest.mark.parametrize("binds", [True, False])
async def test_a_wrong_password_wakes_nothing(gateway: InProcessGateway, binds: bool) -> None:
    wire = await start_login(gateway)
    await wire.authenticate("wrong", binds=binds)
    assert await wire.read_error() == WRONG_PASSWORD
    assert ("wake", ENDPOINT) not in gateway.control_plane.calls


async def test_somebody_unknown_sees_what_a_wrong_password_sees(gateway: InProcessGateway) -> None:
    gateway.control_plane.access_reply = make_access(scram_verifier(PASSWORD), is_known=False)
    wire = await start_login(gateway)
    await wire.authenticate(PASSWORD)
    assert await wire.read_error() == WRONG_PASSWORD
    assert ("wake", ENDPOINT) not in gateway.control_plane.calls


async def test_a_password_that_is_over_is_a_wrong_one(gateway: InProcessGateway) -> None:
    good = make_access(scram_verifier(PASSWORD), valid_until=clock.now() + timedelta(hours=1))
    for until, enters in ((timedelta(hours=1), True), (timedelta(seconds=-1), False)):
        gateway.control_plane.access_reply = replace(good, valid_until=clock.now() + until)
        gateway.worker_services[0].cache.invalidate([ENDPOINT])
        wire = await start_login(gateway)
        await wire.authenticate()
        if enters:
            await wire.read_until(messages.READY_FOR_QUERY)
            wire.close()
        else:
            assert (await wire.read_error()).sqlstate == "28P01"


async def test_a_changed_password_is_asked_for_again_after_a_refusal(gateway: InProcessGateway) -> None:
    wire = await start_login(gateway)
    await wire.authenticate()
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.close()
    gateway.control_plane.access_reply = make_access(scram_verifier("another horse"))
    wire = await start_login(gateway)
    await wire.authenticate("another horse")
    assert await wire.read_error() == WRONG_PASSWORD  # the old verifier is cached for a moment
    wire = await start_login(gateway)
    await wire.authenticate("another horse")
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.close()


async def test_only_the_networks_of_the_project_are_let_in(gateway: InProcessGateway) -> None:
    known = make_access(scram_verifier(PASSWORD))
    gateway.control_plane.access_reply = replace(known, allowed_networks=("10.0.0.0/8",))
    wire = await start_login(gateway)
    await wire.authenticate()
    error = await wire.read_error()
    assert error.sqlstate == "28000"
    assert "127.0.0.1 is not allowed by the project" in error.message
    gateway.control_plane.access_reply = replace(known, allowed_networks=("10.0.0.0/8", "127.0.0.0/8"))
    gateway.worker_services[0].cache.invalidate([ENDPOINT])
    wire = await start_login(gateway)
    await wire.authenticate()
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.close()


async def test_a_role_that_cannot_enter_is_told_why(gateway: InProcessGateway) -> None:
    gateway.control_plane.access_reply = replace(
        make_access("md5"), rejection="Its password is stored as md5; set it again."
    )
    wire = await start_login(gateway)
    assert await wire.read_error() == messages.ErrorResponse(
        sqlstate="28000", message="Its password is stored as md5; set it again."
    )


async def test_too_many_wrong_passwords_are_held_up(gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 3
    gateway.worker_services[0].limits._by_client = limits.AttemptCounter(attempts)
    for _ in range(attempts):
        wire = await start_login(gateway)
        await wire.authenticate("wrong")
        assert await wire.read_error() == WRONG_PASSWORD
    wire = await start_login(gateway)
    error = await wire.read_error()
    assert (error.sqlstate, "Too many failed logins" in error.message) == ("53300", True)


async def test_what_postgres_says_against_a_connection_arrives_in_its_words(gateway: InProcessGateway) -> None:
    wire = await start_login(gateway, database="nowhere")
    await wire.authenticate()
    error = await wire.read_error()
    assert (error.sqlstate, error.message) == ("3D000", 'database "nowhere" does not exist')


@pytest.mark.parametrize("body", [b"", b"SCRAM-SHA-1\0\0\0\0\0", b"SCRAM-SHA-256\0\xff\xff\xff\xff", b"\0" * 50])
async def test_a_client_that_answers_nonsense_is_told_so(gateway: InProcessGateway, body: bytes) -> None:
    wire = await start_login(gateway)
    await wire.read_message()
    wire.send(messages.PASSWORD_MESSAGE, body)
    assert (await wire.read_error()).sqlstate == "08P01"


async def test_why_it_is_closed_is_told_to_whoever_has_the_password_and_to_nobody_else(
    gateway: InProcessGateway,
) -> None:
    why = "Claim it to go on: https://bough.example/claim/1"
    for password, is_known in ((PASSWORD, True), ("wrong", True), (PASSWORD, False)):
        gateway.control_plane.access_reply = replace(
            make_access(scram_verifier(PASSWORD), is_known=is_known), blocked_reason=why
        )
        gateway.worker_services[0].cache.invalidate([ENDPOINT])
        wire = await start_login(gateway)
        await wire.authenticate(password)
        gets_reason = password == PASSWORD and is_known
        assert await wire.read_error() == (
            messages.ErrorResponse(sqlstate="53400", message=why) if gets_reason else WRONG_PASSWORD
        )
    assert ("wake", ENDPOINT) not in gateway.control_plane.calls


@pytest.mark.parametrize("host", [HOST, POOLED_HOST], ids=["direct", "pooled"])
async def test_the_address_of_an_audited_client_is_logged(gateway: InProcessGateway, host: str) -> None:
    for is_audited in (False, True):
        gateway.control_plane.access_reply = replace(
            make_access(scram_verifier(PASSWORD)), is_audited=is_audited, pool_settings=PoolSettings(servers=2)
        )
        gateway.worker_services[0].cache.invalidate([ENDPOINT])
        with capture_logs() as events:
            wire = await gateway.open_wire_client()
            await wire.start_tls(host, alpn="postgresql")
            wire.send_startup(0, application_name="tool")
            await wire.authenticate()
            await wire.read_until(messages.READY_FOR_QUERY)
            wire.close()
        logged = [each for each in events if each["event"] == "audited_connection"]
        assert len(logged) == is_audited
        for each in logged:
            assert (each["address"], each["role"], each["database"]) == ("127.0.0.1", ROLE, DATABASE)
            assert (each["server_pid"] is None) == (host == POOLED_HOST)
