"""The signal that rises: whoever waits is woken, and can always be told to leave."""

import asyncio

import pytest

from bough.operations.events import Notifier


async def test_a_beat_wakes_everyone_who_waits() -> None:
    pulse = Notifier()
    waiting = [asyncio.create_task(pulse.wait(60)) for _ in range(3)]
    await asyncio.sleep(0)
    pulse.notify()
    await asyncio.gather(*waiting)


async def test_a_beat_before_the_wait_is_not_missed() -> None:
    pulse = Notifier()
    beat = pulse.next_event()
    pulse.notify()
    await pulse.wait(60, beat)


async def test_waiting_ends_with_its_time() -> None:
    await Notifier().wait(0.001)


@pytest.mark.parametrize("turns", range(5))
async def test_one_who_is_told_to_leave_at_the_beat_leaves(turns: int) -> None:
    """A runner that takes the beat and forgets that it was cancelled would never end."""
    pulse = Notifier()
    task = asyncio.create_task(pulse.wait(60))
    await asyncio.sleep(0)
    pulse.notify()
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
