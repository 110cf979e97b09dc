"""Rule 13: tenants that lock pg_authid do not delay the detection of role changes in other projects."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from bough.engine.port import BranchContents, EngineError
from bough.ids import BranchId, EndpointId
from bough.tasks import inspections, read_contents
from bough.tasks.read_contents import ReadContents
from support.platform import Platform

LOCKED_COUNT = read_contents.CONCURRENCY  # as many as are inspected concurrently


class InspectionWatch:
    """Counts failed inspections in total and before the inspection of the unlocked compute."""

    def __init__(self, platform: Platform, locked: set[EndpointId]) -> None:
        self._contents = platform.engine.read_compute_contents
        self._locked = locked
        self.failed = 0
        self.failed_before_unlocked: int | None = None

    async def read_compute_contents(self, endpoint: EndpointId, *args: Any) -> BranchContents | None:
        try:
            return await self._contents(endpoint, *args)
        except EngineError:
            self.failed += 1
            raise
        finally:
            if endpoint not in self._locked:
                self.failed_before_unlocked = self.failed


async def test_a_change_elsewhere_is_known_in_the_same_round(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspections, "SLOW_AFTER_SECONDS", 0.1)
    projects = [await platform.create_ready_project() for _ in range(LOCKED_COUNT + 1)]
    *lockers, unlocked = projects
    endpoints = [EndpointId(created["endpoints"][0]["id"]) for created in projects]
    watch = InspectionWatch(platform, set(endpoints[:-1]))
    async with AsyncExitStack() as transactions:
        for created in lockers:
            parameters = created["connection_uris"][0]["connection_parameters"]
            endpoint = created["endpoints"][0]["id"]
            tenant = await transactions.enter_async_context(
                platform.connect(endpoint, parameters["role"], parameters["database"])
            )
            await tenant.execute("begin; lock table pg_catalog.pg_authid in access exclusive mode")
        await platform.query(unlocked, "create role newcomer login")
        services = platform.services
        task = ReadContents(platform.store, platform.engine, services.queue, services.activity)
        task._read = {endpoints[-1]: 1.0}  # the last one in order
        monkeypatch.setattr(platform.engine, "read_compute_contents", watch.read_compute_contents)
        await task.run()
    async with platform.store.read() as rows:
        known = await rows.roles.list_in_branch(BranchId(unlocked["branch"]["id"]))
    assert "newcomer" in {role.name for role in known}
    assert watch.failed == LOCKED_COUNT, "the locked computes must not be readable"
    assert watch.failed_before_unlocked == 0, "the unlocked compute waited for a locked one"
