"""Account passwords: every check does the same work, including the first one."""

from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from argon2 import PasswordHasher

from bough.access import passwords
from bough.access.passwords import Passwords
from bough.errors import Invalid

CHEAP: dict[str, Any] = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}


class CountingHasher(PasswordHasher):
    """Records its calls."""

    def __init__(self) -> None:
        super().__init__(**CHEAP)
        self.calls: list[str] = []

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        self.calls.append("hash")
        return super().hash(password, salt=salt)

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - named so by the library
        self.calls.append("verify")
        return super().verify(hash, password)


@pytest.fixture
async def known() -> AsyncIterator[str]:
    hashing = Passwords(PasswordHasher(**CHEAP))
    yield await hashing.digest("the right password")
    hashing.close()


async def test_only_the_right_password_matches(known: str) -> None:
    checking = Passwords(PasswordHasher(**CHEAP))
    assert await checking.matches(known, "the right password")
    assert not await checking.matches(known, "another password")
    assert not await checking.matches(None, "a password that nobody has")
    assert not await checking.matches("no digest at all", "the right password")
    checking.close()


async def test_the_first_to_come_learns_nothing_from_the_work_either(known: str) -> None:
    """The first check computes the dummy digest, whether the account exists or not."""
    work = []
    for digest in (known, None):
        hasher = CountingHasher()
        checking = Passwords(hasher)
        for _ in range(2):
            await checking.matches(digest, "another password")
        checking.close()
        work.append(hasher.calls)
    assert work[0] == work[1] == ["hash", "verify", "verify"]


@pytest.mark.parametrize("password", ["short", "x" * 257, "aaaaaaaaaaaa", "ada.lovelace", "ADA.LOVELACE@example.com"])
def test_what_is_easy_to_guess_is_refused(password: str) -> None:
    with pytest.raises(Invalid):
        passwords.check_strength(password, "ada.lovelace@example.com")
    passwords.check_strength("several words are good", "ada.lovelace@example.com")
