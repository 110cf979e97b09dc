"""Row 13: tenants who lock the catalog of roles keep nobody's change of roles from being known."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from bough.engine.port import BranchContents, EngineError
from bough.ids import BranchId, EndpointId
from bough.tasks import inspections, read_contents
from bough.tasks.read_contents import ReadContents
from support.platform import Platform

LOCKED = read_contents.CONCURRENCY  # as many as are looked at at once


class Watch:
    """Who was looked at, and how it ended."""

    def __init__(self, platform: Platform, locked: set[EndpointId]) -> None:
        self._contents = platform.engine.read_compute_contents
        self._locked = locked
        self.given_up = 0
        self.before_the_other: int | None = None

    async def read_compute_contents(self, endpoint: EndpointId, *given: Any) -> BranchContents | None:
        try:
            return await self._contents(endpoint, *given)
        except EngineError:
            self.given_up += 1
            raise
        finally:
            if endpoint not in self._locked:
                self.before_the_other = self.given_up


async def test_a_change_elsewhere_is_known_in_the_same_round(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspections, "SLOW_AFTER_SECONDS", 0.1)
    projects = [await platform.create_ready_project() for _ in range(LOCKED + 1)]
    *lockers, other = projects
    endpoints = [EndpointId(made["endpoints"][0]["id"]) for made in projects]
    watch = Watch(platform, set(endpoints[:-1]))
    async with AsyncExitStack() as transactions:
        for made in lockers:
            parameters = made["connection_uris"][0]["connection_parameters"]
            endpoint = made["endpoints"][0]["id"]
            tenant = await transactions.enter_async_context(
                platform.connect(endpoint, parameters["role"], parameters["database"])
            )
            await tenant.execute("begin; lock table pg_catalog.pg_authid in access exclusive mode")
        await platform.query(other, "create role newcomer login")
        parts = platform.services
        task = ReadContents(platform.store, platform.engine, parts.queue, parts.activity)
        task._read = {endpoints[-1]: 1.0}  # the last in the row
        monkeypatch.setattr(platform.engine, "read_compute_contents", watch.read_compute_contents)
        await task.run()
    async with platform.store.read() as rows:
        known = await rows.roles.list_in_branch(BranchId(other["branch"]["id"]))
    assert "newcomer" in {role.name for role in known}
    assert watch.given_up == LOCKED, "the locked ones could not be read"
    assert watch.before_the_other == 0, "the other waited for some of them"
