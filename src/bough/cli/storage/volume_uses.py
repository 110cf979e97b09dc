"""Reads from the store what each volume is used for."""

import asyncio

from bough.config import Settings
from bough.errors import PlatformError
from bough.ids import VolumeId
from bough.store.postgres import PostgresStore
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.store.volume_uses import VolumeUse


def read_volume_uses(settings: Settings) -> dict[VolumeId, VolumeUse]:
    """Return nothing when the store cannot be read: sizes are useful without names."""
    if not settings.store_url and not settings.store_file.exists():
        return {}
    try:
        return asyncio.run(_read(make_store(settings)))
    except PlatformError:
        return {}


def make_store(settings: Settings) -> Store:
    return PostgresStore(settings.store_url) if settings.store_url else SqliteStore(settings.store_file)


async def _read(store: Store) -> dict[VolumeId, VolumeUse]:
    """Do not call `open`, which would migrate the schema."""
    try:
        async with store.read() as rows:
            return {use.volume_id: use for use in await rows.volume_uses.list_all()}
    finally:
        await store.close()
