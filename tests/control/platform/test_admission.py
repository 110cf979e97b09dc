"""Limits of concurrency and rate, and the order of callers."""

import asyncio

import pytest

from bough import clock
from bough.control.platform.admission import Admission


async def test_no_more_than_that_are_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    admission, inside, most, order = Admission(concurrency=3, per_second=10_000), 0, 0, []

    async def enter(number: int) -> None:
        nonlocal inside, most
        async with admission.admit():
            order.append(number)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

    await asyncio.gather(*map(enter, range(12)))
    assert most == 3
    assert order == list(range(12))


async def test_after_a_seconds_worth_they_enter_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = 1000.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr(clock, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    admission = Admission(concurrency=100, per_second=10)
    for _ in range(15):
        async with admission.admit():
            pass
    assert sum(slept) == pytest.approx(0.5)


async def test_who_leaves_while_waiting_leaves_no_gap() -> None:
    admission = Admission(concurrency=1, per_second=10_000)
    async with admission.admit():
        waiting = [asyncio.create_task(admission.admit().__aenter__()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert not waiting[1].done()
    async with asyncio.timeout(5):
        await waiting[1]
