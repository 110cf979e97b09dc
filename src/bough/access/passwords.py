"""Passwords of people: kept as argon2 digests, checked with the same work whether there is an account or not.

A digest takes 64 MiB and tens of milliseconds, so few are made at once, away from the event loop.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bough.errors import Invalid

MIN_LENGTH, MAX_LENGTH = 10, 256  # characters
_THREADS = 2


class Passwords:
    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(_THREADS, "passwords")

    async def digest(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def matches(self, digest: str | None, password: str) -> bool:
        """Without a digest it never does, and takes as long to say so."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._verify, digest, password)
        return await running and digest is not None

    def needs_rehash(self, digest: str) -> bool:
        """Made with less work than we ask for today."""
        return self._hasher.check_needs_rehash(digest)

    def close(self) -> None:
        self._threads.shutdown()

    def _verify(self, digest: str | None, password: str) -> bool:
        nobodys = self._dummy_digest  # made by the first who comes, whoever that is
        try:
            return self._hasher.verify(digest or nobodys, password)
        except (VerificationError, InvalidHashError):
            return False

    @cached_property
    def _dummy_digest(self) -> str:
        return self._hasher.hash("a password that nobody has")


def check_strength(password: str, email: str) -> None:
    """Length is what counts; no rules about kinds of characters."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise Invalid(f"The password has {len(password)} characters: use {MIN_LENGTH} to {MAX_LENGTH}.")
    if password.strip().lower() in {email, email.partition("@")[0]} or len(set(password)) < 4:
        raise Invalid("This password is too easy to guess: use several words, or let a program make one.")
