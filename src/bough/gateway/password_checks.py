"""Verifies cleartext passwords in threads: the owner of a role chooses how much hashing that takes.

Each endpoint runs one verification at a time and pauses after it. It gets a fixed share of one thread, for any
number of clients and any number of SCRAM iterations.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from bough import clock
from bough.gateway.auth import password
from bough.gateway.auth.scram import ScramVerifier
from bough.gateway.limits import LoginAttempt
from bough.ids import EndpointId

THREADS = 2
ENDPOINT_THREAD_SHARE = 0.25  # of one thread


class _EndpointSlot:
    """The one verification that an endpoint may run, and the pause after it."""

    __slots__ = ("lock", "pause_seconds", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.pause_seconds = 0.0


class PasswordVerifier:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        self._slots: dict[EndpointId, _EndpointSlot] = {}

    async def verify(
        self, endpoint: EndpointId, clear_text: str, verifier: ScramVerifier, attempt: LoginAttempt
    ) -> bool:
        password.check_iterations(verifier)
        loop = asyncio.get_running_loop()
        async with self._acquire_slot(endpoint) as slot:
            attempt.count()
            is_valid, seconds = await loop.run_in_executor(self._threads, _verify_timed, clear_text, verifier)
            slot.pause_seconds = seconds * (1 / ENDPOINT_THREAD_SHARE - 1)
            return is_valid

    @asynccontextmanager
    async def _acquire_slot(self, endpoint: EndpointId) -> AsyncIterator[_EndpointSlot]:
        slot = self._slots.setdefault(endpoint, _EndpointSlot())
        slot.users += 1
        try:
            await slot.lock.acquire()
        except BaseException:
            self._drop_user(endpoint, slot)
            raise
        try:
            yield slot
        finally:
            asyncio.get_running_loop().call_later(slot.pause_seconds, self._release, endpoint, slot)

    def _release(self, endpoint: EndpointId, slot: _EndpointSlot) -> None:
        slot.lock.release()
        self._drop_user(endpoint, slot)

    def _drop_user(self, endpoint: EndpointId, slot: _EndpointSlot) -> None:
        slot.users -= 1
        if not slot.users:
            del self._slots[endpoint]


def _verify_timed(clear_text: str, verifier: ScramVerifier) -> tuple[bool, float]:
    started_at = clock.monotonic()
    return password.verify_password(clear_text, verifier), clock.monotonic() - started_at
