"""Iterates over long lists in chunks and yields to the event loop in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

CHUNK_SIZE = 200  # for items that take a few microseconds each

T = TypeVar("T")


async def iterate_chunks(items: Sequence[T], size: int = CHUNK_SIZE) -> AsyncIterator[Sequence[T]]:
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]
