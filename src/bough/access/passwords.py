"""Passwords of people: kept as argon2 digests, checked with the same work whether there is an account or not.

A digest takes 64 MiB and tens of milliseconds, so few are made at once, away from the event loop.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bough.errors import Invalid

SHORTEST, LONGEST = 10, 256  # characters
_AT_ONCE = 2


class Passwords:
    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "passwords")

    async def digest(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def matches(self, digest: str | None, password: str) -> bool:
        """Without a digest it never does, and takes as long to say so."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._verify, digest, password)
        return await running and digest is not None

    def is_outdated(self, digest: str) -> bool:
        """Made with less work than we ask for today."""
        return self._hasher.check_needs_rehash(digest)

    def close(self) -> None:
        self._threads.shutdown()

    def _verify(self, digest: str | None, password: str) -> bool:
        nobodys = self._nobodys  # made by the first who comes, whoever that is
        try:
            return self._hasher.verify(digest or nobodys, password)
        except (VerificationError, InvalidHashError):
            return False

    @cached_property
    def _nobodys(self) -> str:
        return self._hasher.hash("a password that nobody has")


def check(password: str, email: str) -> None:
    """Length is what counts; no rules about kinds of characters."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(f"The password has {len(password)} characters: use {SHORTEST} to {LONGEST}.")
    if password.strip().lower() in {email, email.partition("@")[0]} or len(set(password)) < 4:
        raise Invalid("This password is too easy to guess: use several words, or let a program make one.")
