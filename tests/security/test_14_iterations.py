"""Rule 14: tenants choose the iteration count of a verifier; its cost for the gateway is bounded."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from bough.gateway import password_checks
from bough.gateway.auth import password
from bough.gateway.auth.password import MAX_ITERATIONS
from bough.gateway.auth.scram import ScramVerifier
from bough.gateway.wire import messages
from bough.postgres import scram
from bough.postgres.scram import scram_verifier
from support.control_plane import make_access
from support.gateway import ENDPOINT, PASSWORD, InProcessGateway, WireClient, open_gateway
from support.postgres import PostgresServer

OTHER_ENDPOINT = "ep-calm-sea-b1b2c3d4"


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    await (await postgres_server.connect()).close()
    async with open_gateway(postgres_server) as opened:
        yield opened


async def send_password(gateway: InProcessGateway, endpoint: str, secret_text: str = PASSWORD) -> WireClient:
    """Logs in as a client without SNI, which sends endpoint and password in clear text."""
    wire = await gateway.open_wire_client()
    await wire.start_tls(host=None, alpn="postgresql")
    wire.send_startup()
    assert (await wire.read_message()).body == (3).to_bytes(4)
    wire.send(messages.PASSWORD_MESSAGE, f"endpoint={endpoint};{secret_text}\0".encode())
    return wire


async def test_what_takes_too_long_is_refused_before_it_is_hashed(
    gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration_counts: list[int] = []
    original = hashlib.pbkdf2_hmac

    def count_and_hash(name: str, password_bytes: bytes, salt: bytes, iterations: int) -> bytes:
        iteration_counts.append(iterations)
        return original(name, password_bytes, salt, iterations)

    gateway.control_plane.access_reply = make_access(scram_verifier(PASSWORD, iterations=200_000))
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", count_and_hash)
    error = await (await send_password(gateway, ENDPOINT)).read_error()
    assert (error.sqlstate, "scram_iterations" in error.message) == ("28000", True)
    assert iteration_counts == []
    gateway.worker_services[0].cache.invalidate([ENDPOINT])
    gateway.control_plane.access_reply = make_access(scram_verifier(PASSWORD, iterations=MAX_ITERATIONS))
    iteration_counts.clear()
    await (await send_password(gateway, ENDPOINT)).read_until(messages.READY_FOR_QUERY)
    assert iteration_counts == [MAX_ITERATIONS]


async def test_one_endpoint_has_one_check_at_a_time_and_leaves_room_for_others(
    gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume, started = threading.Event(), threading.Semaphore(0)
    original, slow_checks = password.verify_password, []

    def verify(text: str, verifier: ScramVerifier) -> bool:
        if text == "slow":
            slow_checks.append(text)
            started.release()
            resume.wait(60)
        return original(text, verifier)

    monkeypatch.setattr(password, "verify_password", verify)
    clients = [await send_password(gateway, ENDPOINT, "slow") for _ in range(3 * password_checks.THREADS)]
    await asyncio.to_thread(started.acquire)
    await (await send_password(gateway, OTHER_ENDPOINT)).read_until(messages.READY_FOR_QUERY)
    assert len(slow_checks) == 1
    resume.set()
    for wire in clients:
        assert (await wire.read_error()).sqlstate == "28P01"
    assert len(slow_checks) == len(clients)


async def test_an_endpoint_pauses_for_three_times_as_long_as_a_check_took(
    gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_checks, "_verify_timed", lambda *_: (True, 1000.0))
    await (await send_password(gateway, ENDPOINT)).read_until(messages.READY_FOR_QUERY)
    slot = gateway.worker_services[0].authenticator._password_verifier._slots[ENDPOINT]
    assert slot.lock.locked()
    assert slot.pause_seconds == 3000.0
    await (await send_password(gateway, OTHER_ENDPOINT)).read_until(messages.READY_FOR_QUERY)


async def test_an_endpoint_is_forgotten_when_nobody_waits_for_it(gateway: InProcessGateway) -> None:
    await (await send_password(gateway, ENDPOINT)).read_until(messages.READY_FOR_QUERY)
    verifier = gateway.worker_services[0].authenticator._password_verifier
    for _ in range(500):
        if not verifier._slots:
            break
        await asyncio.sleep(0.01)
    assert verifier._slots == {}


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
    verifier = change(scram_verifier("x"))[: scram.MAX_VERIFIER_LENGTH]  # as the query of the platform truncates it
    assert scram.is_usable(verifier) is is_usable
