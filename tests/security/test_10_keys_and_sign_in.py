"""Guesses at keys and passwords, sent side by side: no more of them are judged than the limit says."""

import asyncio
from collections import Counter

import httpx2

from bough.access.passwords import Passwords
from support.api_app import ApiApp as ApiFront
from support.pages_app import FAST_PASSWORDS, PASSWORD
from support.pages_app import PagesApp as PagesFront
from support.platform import Platform

AT_ONCE = 25
SAME, OTHER = "192.0.2.1", "192.0.2.2"


async def statuses(client: httpx2.AsyncClient, count: int) -> "Counter[int]":
    answers = await asyncio.gather(*(client.get("/auth") for _ in range(count)))
    return Counter(answer.status_code for answer in answers)


async def test_whoever_guesses_at_a_key_is_not_told_when_it_is_right(platform: Platform) -> None:
    front = ApiFront(platform, rate_per_minute_and_address=5)
    wrong = platform.key[:22] + platform.key[22:][::-1]
    async with front.client(wrong, address=SAME) as guesser:
        assert await statuses(guesser, AT_ONCE) == {401: 5, 429: AT_ONCE - 5}
    async with front.client(platform.key, address=SAME) as guesser:
        assert await statuses(guesser, 1) == {429: 1}
    async with front.client(platform.key, address=OTHER) as owner:
        assert await statuses(owner, 1) == {200: 1}


async def test_guesses_at_one_key_do_not_hold_up_another_of_the_same_address(platform: Platform) -> None:
    front = ApiFront(platform, rate_per_minute_and_address=5)
    async with front.client("bough_key_".ljust(65, "x"), address=SAME) as guesser:
        assert await statuses(guesser, AT_ONCE) == {401: 5, 429: AT_ONCE - 5}
    async with front.client(platform.key, address=SAME) as owner:
        assert await statuses(owner, 5) == {200: 5}


class Counting(Passwords):
    """Waits before it judges, as a slow machine does."""

    def __init__(self) -> None:
        super().__init__(FAST_PASSWORDS._hasher)
        self.judged = 0

    async def matches(self, digest: str | None, password: str) -> bool:
        await asyncio.sleep(0)
        self.judged += 1
        return await super().matches(digest, password)


async def test_sign_ins_side_by_side_are_judged_up_to_the_limit(platform: Platform) -> None:
    counting = Counting()
    front = PagesFront(platform, passwords=counting)
    user, browser = await front.create_user(), front.open_client(SAME)
    await browser.get("/signin")
    counting.judged = 0
    answers = await asyncio.gather(
        *(browser.post("/signin", email=user.email, password="wrong guess") for _ in range(AT_ONCE))
    )
    assert Counter(answer.status_code for answer in answers) == {401: 10, 429: AT_ONCE - 10}
    assert counting.judged == 10


async def test_right_sign_ins_give_back_what_they_took(platform: Platform) -> None:
    front = PagesFront(platform)
    user = await front.create_user()
    for _ in range(40):  # an address may fail thirty times
        await front.open_client(SAME).sign_in(user, PASSWORD)
