"""How often a role's password is hashed is its owner's choice; what that costs the gateway is bounded."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable

import pytest

import world
from bough.gateway import password_checks
from bough.gateway.auth import password
from bough.gateway.auth.password import MOST_ITERATIONS
from bough.gateway.auth.scram import Verifier
from bough.gateway.wire import messages
from bough.postgres import secret
from bough.postgres.secret import scram_verifier
from gateway import doorway as doorways
from gateway.doorway import ENDPOINT, PASSWORD, Doorway, Wire
from gateway.planes import access

OTHER = "ep-calm-sea-b1b2c3d4"


@pytest.fixture
async def doorway(postgres_server: world.PostgresServer) -> AsyncIterator[Doorway]:
    await (await postgres_server._connect()).close()
    async with doorways.doorway(postgres_server) as opened:
        yield opened


async def typed(doorway: Doorway, endpoint: str, secret_text: str = PASSWORD) -> Wire:
    """A client that cannot name its endpoint otherwise, with its password in clear text."""
    wire = await doorway.wire()
    await wire.encrypt(host=None, alpn="postgresql")
    wire.start()
    assert (await wire.message()).body == (3).to_bytes(4)
    wire.say(messages.PASSWORD, f"endpoint={endpoint};{secret_text}\0".encode())
    return wire


async def test_what_takes_too_long_is_refused_before_it_is_hashed(
    doorway: Doorway, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []
    real = hashlib.pbkdf2_hmac

    def counting(name: str, given: bytes, salt: bytes, iterations: int) -> bytes:
        hashed.append(iterations)
        return real(name, given, salt, iterations)

    doorway.plane.answer = access(scram_verifier(PASSWORD, iterations=200_000))
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting)
    trouble = await (await typed(doorway, ENDPOINT)).trouble()
    assert (trouble.code, "scram_iterations" in trouble.message) == ("28000", True)
    assert hashed == []
    doorway.rooms[0].remembering.drop([ENDPOINT])
    doorway.plane.answer = access(scram_verifier(PASSWORD, iterations=MOST_ITERATIONS))
    hashed.clear()
    await (await typed(doorway, ENDPOINT)).until(messages.READY)
    assert hashed == [MOST_ITERATIONS]


async def test_one_endpoint_has_one_check_at_a_time_and_leaves_room_for_others(
    doorway: Doorway, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, begun = threading.Event(), threading.Semaphore(0)
    real, slow = password.fits, []

    def fits(given: str, verifier: Verifier) -> bool:
        if given == "slow":
            slow.append(given)
            begun.release()
            goes_on.wait(60)
        return real(given, verifier)

    monkeypatch.setattr(password, "fits", fits)
    waiting = [await typed(doorway, ENDPOINT, "slow") for _ in range(3 * password_checks.THREADS)]
    await asyncio.to_thread(begun.acquire)
    await (await typed(doorway, OTHER)).until(messages.READY)
    assert len(slow) == 1
    goes_on.set()
    for wire in waiting:
        assert (await wire.trouble()).code == "28P01"
    assert len(slow) == len(waiting)


async def test_an_endpoint_pauses_for_three_times_as_long_as_a_check_took(
    doorway: Doorway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_checks, "_timed", lambda *_: (True, 1000.0))
    await (await typed(doorway, ENDPOINT)).until(messages.READY)
    turn = doorway.rooms[0].login._checks._turns[ENDPOINT]
    assert turn.lock.locked()
    assert turn.pause == 3000.0
    await (await typed(doorway, OTHER)).until(messages.READY)


async def test_an_endpoint_is_forgotten_when_nobody_waits_for_it(doorway: Doorway) -> None:
    await (await typed(doorway, ENDPOINT)).until(messages.READY)
    checks = doorway.rooms[0].login._checks
    for _ in range(500):
        if not checks._turns:
            break
        await asyncio.sleep(0.01)
    assert checks._turns == {}


@pytest.mark.parametrize(
    ("change", "is_usable"),
    [
        (lambda text: text, True),
        (lambda text: text.replace("$4096:", "$9999999:"), True),
        (lambda text: text.replace("$4096:", "$10000000:"), False),
        (lambda text: text.replace("$4096:", "$0:"), False),
        (lambda text: text.replace("$4096:", "$4096:" + "A" * 80), False),
        (lambda text: text.replace("$4096:", "$4096:" + "A" * 1_000_000), False),
        (lambda text: text + "A" * 200, False),
    ],
)
def test_absurd_verifiers_are_not_served(change: Callable[[str], str], is_usable: bool) -> None:
    verifier = change(scram_verifier("x"))[: secret.LONGEST]  # as our question cuts it
    assert secret.is_usable(verifier) is is_usable
