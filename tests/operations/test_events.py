"""Notifications: waiters are woken, and a waiter can always be cancelled."""

import asyncio

import pytest

from bough.operations.events import Notifier


async def test_a_beat_wakes_everyone_who_waits() -> None:
    notifier = Notifier()
    waiting = [asyncio.create_task(notifier.wait(60)) for _ in range(3)]
    await asyncio.sleep(0)
    notifier.notify()
    await asyncio.gather(*waiting)


async def test_a_beat_before_the_wait_is_not_missed() -> None:
    notifier = Notifier()
    event = notifier.next_event()
    notifier.notify()
    await notifier.wait(60, event)


async def test_waiting_ends_with_its_time() -> None:
    await Notifier().wait(0.001)


@pytest.mark.parametrize("iterations", range(5))
async def test_one_who_is_told_to_leave_at_the_beat_leaves(iterations: int) -> None:
    """A runner that loses its cancellation when an event arrives would never stop."""
    notifier = Notifier()
    task = asyncio.create_task(notifier.wait(60))
    await asyncio.sleep(0)
    notifier.notify()
    for _ in range(iterations):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
