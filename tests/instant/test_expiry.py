"""Expired databases are deleted completely: data, WAL, processes and rows. Claimed ones stay."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bough import clock
from bough.domain.user import OPERATOR
from bough.engine.port import EngineError
from bough.ids import EndpointId
from bough.store.store import Rows
from bough.store.tables import metadata
from instant.instant_app import InstantApp
from support.platform import Platform, open_platform

LOGBOOKS = {"audit", "gateway_workers", "metric_samples"}  # rows of these tables outlive the database


async def test_bursts_of_parallel_creations_fail_nowhere_and_their_expiry_frees_everything(is_long_run: bool) -> None:
    count = 200 if is_long_run else 8
    async with open_platform(warm_pool=2) as platform, platform.background_runner():
        app = InstantApp(platform)
        await _until_pool_is_full(platform)
        before = await _everything(platform)
        created = await asyncio.gather(*(app.create() for _ in range(count)))
        for name in ("id", "neon_project_id", "connection_string"):
            assert len({each[name] for each in created}) == count
        assert await asyncio.gather(*(app.fetch_value(each, "select 1") for each in created)) == [1] * count

        for each in created:
            await app.update_row(each, expires_at=clock.now())
        while await _unclaimed(platform):
            await platform.run_tasks()
            await platform.run_operations()
        await _until_pool_is_full(platform)
        assert await _everything(platform) == before


async def test_an_expired_one_is_unknown_at_once_and_its_clients_leave(instant_app: InstantApp) -> None:
    created = await instant_app.create()
    endpoint = EndpointId(created["connection_string"].split("@")[1].split("-pooler")[0])
    await instant_app.update_row(created, expires_at=clock.now())
    expired, unknown = (
        (await instant_app.get(created["id"])),
        (await instant_app.get("6ba7b811-9dad-41d1-80b4-00c04fd430c8")),
    )
    assert expired.status_code == unknown.status_code == 400
    assert {**expired.json(), "request_id": ""} == {**unknown.json(), "request_id": ""}
    await instant_app.platform.run_tasks()
    await instant_app.platform.run_operations()
    assert await instant_app.platform.engine.find_address(endpoint) is None


async def test_a_claim_that_was_begun_in_time_holds_the_expiration_up(instant_app: InstantApp) -> None:
    created = await instant_app.create()
    soon = clock.now() + timedelta(minutes=15)
    await instant_app.update_row(created, expires_at=clock.now(), claiming_by=OPERATOR, claiming_until=soon)
    await instant_app.platform.run_tasks()
    assert (await instant_app.get(created["id"])).json()["status"] == "CLAIMING"
    await instant_app.update_row(created, expires_at=clock.now(), claiming_by=None, claiming_until=None)
    assert (await instant_app.get(created["id"])).status_code == 400


async def test_a_claimed_one_does_not_expire(instant_app: InstantApp) -> None:
    created = await instant_app.create()
    await instant_app.update_row(created, expires_at=clock.now(), claimed_by=OPERATOR, claimed_at=clock.now())
    await instant_app.platform.run_tasks()
    await instant_app.platform.run_operations()
    assert (await instant_app.get(created["id"])).json()["status"] == "CLAIMED"
    assert await instant_app.fetch_value(created, "select 1") == 1


async def test_one_that_cannot_be_started_is_taken_back(
    instant_app: InstantApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asleep(_endpoint: EndpointId) -> None:
        raise EngineError("The disk is gone.")

    with monkeypatch.context() as during:
        during.setattr(instant_app.services.wakes, "wake", asleep)
        refused = await instant_app.post(json={"ref": "unlucky"})
    assert refused.status_code == 503
    assert "The disk is gone." in refused.json()["message"]
    async with instant_app.platform.store.read() as rows:
        due = await rows.instant_databases.list_expired(clock.now(), 100)
    assert "unlucky" in [each.ref for each in due]


async def test_the_log_never_has_the_id(instant_app: InstantApp, capfd: pytest.CaptureFixture[str]) -> None:
    created = await instant_app.create()
    await instant_app.get(created["id"])
    async with instant_app.client() as client:
        await client.get(f"/claim/{created['id']}")
        await client.get(f"/database/{created['id']}")
    said = "".join(capfd.readouterr())
    assert "create_database" in said or "/api/v1/database" in said
    assert created["id"] not in said


async def _until_pool_is_full(platform: Platform) -> None:
    while len((await platform.engine.observe()).spare_endpoints) < platform.settings.warm_pool:  # noqa: ASYNC110  the pool tells nobody
        await asyncio.sleep(0.05)


async def _unclaimed(platform: Platform) -> bool:
    async with platform.store.read() as rows:
        return bool(await _count(rows, "instant_databases") or await _count(rows, "operations"))


async def _everything(platform: Platform) -> dict[str, Any]:
    """The resources that a platform uses on its machine."""
    seen = await platform.engine.observe()
    async with platform.store.read() as rows:
        counts = {table.name: await _count(rows, table.name) for table in metadata.sorted_tables}
    home = platform.settings.home
    return {
        "rows": {name: count for name, count in counts.items() if name not in LOGBOOKS},
        "running": len(seen.running_endpoints),
        "volumes": len(seen.volumes),
        "folders": {name: len(list((home / name).iterdir())) for name in ("volumes", "wal") if (home / name).exists()},
        "processes": _processes(home),
    }


async def _count(rows: Rows, table: str) -> int:
    counted = sa.select(sa.func.count()).select_from(metadata.tables[table])
    return int(await rows.projects._value(counted))


def _processes(home: Path) -> int:
    """The Postgres servers of this home. A new child of a server shows the command line of its parent for a moment."""
    parents: dict[str, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(home).encode() in (entry / "cmdline").read_bytes():
                parents[entry.name] = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
    return len(parents.keys() - {pid for pid, parent in parents.items() if parent in parents})
