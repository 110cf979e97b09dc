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
from bough.gateway.auth.scram import Verifier
from bough.gateway.limits import Attempt
from bough.ids import EndpointId

THREADS = 2
SHARE = 0.25  # of one thread, for one endpoint


class _Turn:
    """Who may use a thread for an endpoint, and how long the endpoint pauses after it."""

    __slots__ = ("lock", "pause", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.pause = 0.0


class PasswordChecks:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        self._turns: dict[EndpointId, _Turn] = {}

    async def fits(self, endpoint: EndpointId, typed: str, verifier: Verifier, attempt: Attempt) -> bool:
        password.check_iterations(verifier)
        loop = asyncio.get_running_loop()
        async with self._turn(endpoint) as turn:
            attempt.judge()
            fits, seconds = await loop.run_in_executor(self._threads, _timed, typed, verifier)
            turn.pause = seconds * (1 / SHARE - 1)
            return fits

    @asynccontextmanager
    async def _turn(self, endpoint: EndpointId) -> AsyncIterator[_Turn]:
        turn = self._turns.setdefault(endpoint, _Turn())
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

    def _release(self, endpoint: EndpointId, turn: _Turn) -> None:
        turn.lock.release()
        self._leave(endpoint, turn)

    def _leave(self, endpoint: EndpointId, turn: _Turn) -> None:
        turn.users -= 1
        if not turn.users:
            del self._turns[endpoint]


def _timed(typed: str, verifier: Verifier) -> tuple[bool, float]:
    began = clock.monotonic()
    return password.fits(typed, verifier), clock.monotonic() - began
