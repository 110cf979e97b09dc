"""Checks of passwords that came in clear text: the only hashing whose cost the owner of a role chooses.

They run on threads of their own. An endpoint has one check at a time and then pauses, so it gets at most a
part of one thread, however many clients it has and however many iterations its passwords are stored with.
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
ENDPOINT_THREAD_SHARE = 0.25  # of one thread, for one endpoint


class _EndpointSlot:
    """Who may use a thread for an endpoint, and how long the endpoint pauses after it."""

    __slots__ = ("lock", "pause", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.pause = 0.0


class PasswordVerifier:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        self._slots: dict[EndpointId, _EndpointSlot] = {}

    async def verify(
        self, endpoint: EndpointId, clear_text: str, verifier: ScramVerifier, attempt: LoginAttempt
    ) -> bool:
        password.check_iterations(verifier)
        loop = asyncio.get_running_loop()
        async with self._acquire_slot(endpoint) as turn:
            attempt.count()
            fits, seconds = await loop.run_in_executor(self._threads, _timed, clear_text, verifier)
            turn.pause = seconds * (1 / ENDPOINT_THREAD_SHARE - 1)
            return fits

    @asynccontextmanager
    async def _acquire_slot(self, endpoint: EndpointId) -> AsyncIterator[_EndpointSlot]:
        turn = self._slots.setdefault(endpoint, _EndpointSlot())
        turn.users += 1
        try:
            await turn.lock.acquire()
        except BaseException:
            self._leave(endpoint, turn)
            raise
        try:
            yield turn
        finally:
            asyncio.get_running_loop().call_later(turn.pause, self._release, endpoint, turn)

    def _release(self, endpoint: EndpointId, turn: _EndpointSlot) -> None:
        turn.lock.release()
        self._leave(endpoint, turn)

    def _leave(self, endpoint: EndpointId, turn: _EndpointSlot) -> None:
        turn.users -= 1
        if not turn.users:
            del self._slots[endpoint]


def _timed(typed: str, verifier: ScramVerifier) -> tuple[bool, float]:
    began = clock.monotonic()
    return password.verify_password(typed, verifier), clock.monotonic() - began
