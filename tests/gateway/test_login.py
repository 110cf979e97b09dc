"""Who may enter: SCRAM with and without binding, and what somebody unknown can find out."""

from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network

import pytest

from bough import clock
from bough.gateway import limits
from bough.gateway.wire import messages
from bough.postgres.secret import scram_verifier
from gateway.doorway import ENDPOINT, PASSWORD, ROLE, Doorway, Wire
from gateway.planes import access

REFUSED = messages.Trouble(code="28P01", message=f'password authentication failed for user "{ROLE}"')


async def entered(doorway: Doorway, **parameters: str) -> Wire:
    wire = await doorway.wire()
    await wire.encrypt(alpn="postgresql")
    wire.start(0, **parameters)
    return wire


@pytest.mark.parametrize("binds", [True, False])
async def test_the_right_password_enters_and_the_server_proves_itself_too(doorway: Doorway, binds: bool) -> None:
    wire = await entered(doorway)
    await wire.log_in(binds=binds)
    heard = await wire.until(messages.READY)
    assert heard[0].body[:4] == (12).to_bytes(4)  # SASLFinal, before AuthenticationOk
    assert heard[1].body == b"\0\0\0\0"
    wire.close()


@pytest.mark.parametrize("binds", [True, False])
async def test_a_wrong_password_wakes_nothing(doorway: Doorway, binds: bool) -> None:
    wire = await entered(doorway)
    await wire.log_in("wrong", binds=binds)
    assert await wire.trouble() == REFUSED
    assert ("wake", ENDPOINT) not in doorway.plane.asked


async def test_somebody_unknown_sees_what_a_wrong_password_sees(doorway: Doorway) -> None:
    doorway.plane.answer = access(scram_verifier(PASSWORD), is_known=False)
    wire = await entered(doorway)
    await wire.log_in(PASSWORD)
    assert await wire.trouble() == REFUSED
    assert ("wake", ENDPOINT) not in doorway.plane.asked


async def test_a_password_that_is_over_is_a_wrong_one(doorway: Doorway) -> None:
    good = access(scram_verifier(PASSWORD), valid_until=clock.now() + timedelta(hours=1))
    for until, enters in ((timedelta(hours=1), True), (timedelta(seconds=-1), False)):
        doorway.plane.answer = replace(good, valid_until=clock.now() + until)
        doorway.rooms[0].remembering.drop([ENDPOINT])
        wire = await entered(doorway)
        await wire.log_in()
        if enters:
            await wire.until(messages.READY)
            wire.close()
        else:
            assert (await wire.trouble()).code == "28P01"


async def test_a_changed_password_is_asked_for_again_after_a_refusal(doorway: Doorway) -> None:
    wire = await entered(doorway)
    await wire.log_in()
    await wire.until(messages.READY)
    wire.close()
    doorway.plane.answer = access(scram_verifier("another horse"))
    wire = await entered(doorway)
    await wire.log_in("another horse")
    assert await wire.trouble() == REFUSED  # the old one is remembered for a moment
    wire = await entered(doorway)
    await wire.log_in("another horse")
    await wire.until(messages.READY)
    wire.close()


async def test_only_the_networks_of_the_project_are_let_in(doorway: Doorway) -> None:
    known = access(scram_verifier(PASSWORD))
    doorway.plane.answer = replace(known, networks=(ip_network("10.0.0.0/8"),))
    wire = await entered(doorway)
    await wire.log_in()
    trouble = await wire.trouble()
    assert trouble.code == "28000"
    assert "127.0.0.1 is not among those that the project allows" in trouble.message
    doorway.plane.answer = replace(known, networks=(ip_network("10.0.0.0/8"), ip_network("127.0.0.0/8")))
    doorway.rooms[0].remembering.drop([ENDPOINT])
    wire = await entered(doorway)
    await wire.log_in()
    await wire.until(messages.READY)
    wire.close()


async def test_a_role_that_cannot_enter_is_told_why(doorway: Doorway) -> None:
    doorway.plane.answer = replace(access("md5"), refusal="Its password is stored as md5; set it again.")
    wire = await entered(doorway)
    assert await wire.trouble() == messages.Trouble(
        code="28000", message="Its password is stored as md5; set it again."
    )


async def test_too_many_wrong_passwords_are_held_up(doorway: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 3
    doorway.rooms[0].limits._of_client = limits.Tries(tries)
    for _ in range(tries):
        wire = await entered(doorway)
        await wire.log_in("wrong")
        assert await wire.trouble() == REFUSED
    wire = await entered(doorway)
    trouble = await wire.trouble()
    assert (trouble.code, "Too many failed logins" in trouble.message) == ("53300", True)


async def test_what_postgres_says_against_a_connection_arrives_in_its_words(doorway: Doorway) -> None:
    wire = await entered(doorway, database="nowhere")
    await wire.log_in()
    trouble = await wire.trouble()
    assert (trouble.code, trouble.message) == ("3D000", 'database "nowhere" does not exist')


@pytest.mark.parametrize("body", [b"", b"SCRAM-SHA-1\0\0\0\0\0", b"SCRAM-SHA-256\0\xff\xff\xff\xff", b"\0" * 50])
async def test_a_client_that_answers_nonsense_is_told_so(doorway: Doorway, body: bytes) -> None:
    wire = await entered(doorway)
    await wire.message()
    wire.say(messages.PASSWORD, body)
    assert (await wire.trouble()).code == "08P01"


async def test_why_it_is_closed_is_told_to_whoever_has_the_password_and_to_nobody_else(doorway: Doorway) -> None:
    why = "Claim it to go on: https://bough.example/claim/1"
    for password, is_known in ((PASSWORD, True), ("wrong", True), (PASSWORD, False)):
        doorway.plane.answer = replace(access(scram_verifier(PASSWORD), is_known=is_known), closed=why)
        doorway.rooms[0].remembering.drop([ENDPOINT])
        wire = await entered(doorway)
        await wire.log_in(password)
        is_told = password == PASSWORD and is_known
        assert await wire.trouble() == (messages.Trouble(code="53400", message=why) if is_told else REFUSED)
    assert ("wake", ENDPOINT) not in doorway.plane.asked
