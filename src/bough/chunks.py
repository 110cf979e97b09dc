"""Long lists in short pieces, so that the event loop has time for others in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

CHUNK_SIZE = 200  # of what takes some microseconds each

T = TypeVar("T")


async def iterate_chunks(items: Sequence[T], size: int = CHUNK_SIZE) -> AsyncIterator[Sequence[T]]:
    for begin in range(0, len(items), size):
        if begin:
            await asyncio.sleep(0)
        yield items[begin : begin + size]
