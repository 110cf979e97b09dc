"""Rule 10: concurrent guesses at API keys and passwords are checked only up to the limit."""

import asyncio
from collections import Counter

import httpx2

from bough.access.passwords import Passwords
from support.api_app import ApiApp
from support.pages_app import FAST_PASSWORDS, PASSWORD, PagesApp
from support.platform import Platform

CONCURRENT_REQUESTS = 25
ADDRESS, OTHER_ADDRESS = "192.0.2.1", "192.0.2.2"


async def count_statuses(client: httpx2.AsyncClient, count: int) -> "Counter[int]":
    responses = await asyncio.gather(*(client.get("/auth") for _ in range(count)))
    return Counter(response.status_code for response in responses)


async def test_whoever_guesses_at_a_key_is_not_told_when_it_is_right(platform: Platform) -> None:
    app = ApiApp(platform, rate_per_minute_and_address=5)
    wrong = platform.key[:22] + platform.key[22:][::-1]
    async with app.client(wrong, address=ADDRESS) as guesser:
        assert await count_statuses(guesser, CONCURRENT_REQUESTS) == {401: 5, 429: CONCURRENT_REQUESTS - 5}
    async with app.client(platform.key, address=ADDRESS) as guesser:
        assert await count_statuses(guesser, 1) == {429: 1}
    async with app.client(platform.key, address=OTHER_ADDRESS) as owner:
        assert await count_statuses(owner, 1) == {200: 1}


async def test_guesses_at_one_key_do_not_hold_up_another_of_the_same_address(platform: Platform) -> None:
    app = ApiApp(platform, rate_per_minute_and_address=5)
    async with app.client("bough_key_".ljust(65, "x"), address=ADDRESS) as guesser:
        assert await count_statuses(guesser, CONCURRENT_REQUESTS) == {401: 5, 429: CONCURRENT_REQUESTS - 5}
    async with app.client(platform.key, address=ADDRESS) as owner:
        assert await count_statuses(owner, 5) == {200: 5}


class CountingPasswords(Passwords):
    """Counts password checks, and yields to other tasks before each, as on a slow machine."""

    def __init__(self) -> None:
        super().__init__(FAST_PASSWORDS._hasher)
        self.checked = 0

    async def matches(self, digest: str | None, password: str) -> bool:
        await asyncio.sleep(0)
        self.checked += 1
        return await super().matches(digest, password)


async def test_sign_ins_side_by_side_are_judged_up_to_the_limit(platform: Platform) -> None:
    counting_passwords = CountingPasswords()
    app = PagesApp(platform, passwords=counting_passwords)
    user, browser = await app.create_user(), app.open_client(ADDRESS)
    await browser.get("/signin")
    counting_passwords.checked = 0
    responses = await asyncio.gather(
        *(browser.post("/signin", email=user.email, password="wrong guess") for _ in range(CONCURRENT_REQUESTS))
    )
    assert Counter(response.status_code for response in responses) == {401: 10, 429: CONCURRENT_REQUESTS - 10}
    assert counting_passwords.checked == 10


async def test_right_sign_ins_give_back_what_they_took(platform: Platform) -> None:
    app = PagesApp(platform)
    user = await app.create_user()
    for _ in range(40):  # more than the 30 failures that an address may have
        await app.open_client(ADDRESS).sign_in(user, PASSWORD)
