"""The consumption history in both back ends, against a model that keeps every event."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bough.control.consumption import counting
from bough.control.consumption.history import History
from bough.domain.branch import Branch, Volume
from bough.domain.calendar_month import start_of_month
from bough.domain.consumption import Flows, Granularity, Levels
from bough.domain.consumption_metrics import (
    BRANCH_METRICS_V2,
    HOURS_PER_MONTH,
    PROJECT_METRICS,
    PROJECT_METRICS_V2,
    Metric,
)
from bough.domain.consumption_periods import Period, Window
from bough.domain.endpoint import Endpoint
from bough.domain.organization import Organization
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.domain.usage import EndpointTraffic
from bough.ids import BranchId, OrganizationId, ProjectId, SnapshotId, VolumeId
from bough.store.consumption_reads import Range
from bough.store.storage_levels import BranchLevels
from bough.store.store import Rows, Store
from control.consumption.counting_model import AccountModel
from support.stores import ORGANIZATION, add_branch, add_project, make_branch, make_endpoint, make_project

BEGIN = datetime(2031, 3, 30, 21, 40, tzinfo=UTC)  # later than the migration, after which counting begins
MINUTE = timedelta(minutes=1)
METRICS = (*PROJECT_METRICS, *PROJECT_METRICS_V2)


class CrashError(Exception):
    """What happens in the middle of a transaction."""


class ProjectModel:
    """A project with two branches, and what was really used and stored."""

    def __init__(self, store: Store, endpoints: Sequence[Endpoint], random_steps: random.Random) -> None:
        self.store = store
        self.endpoints = endpoints
        self.random = random_steps
        self.accounts = {each.branch_id: AccountModel() for each in endpoints}
        for account in self.accounts.values():
            account.store(BEGIN, Levels())
        self.uncounted: dict[BranchId, Flows] = {}

    async def use(self) -> None:
        """Use something that is not counted yet; sometimes control ends before it is recorded."""
        endpoint = self.random.choice(self.endpoints)
        bytes_out, private, written = (self.random.randrange(10**9) for _ in range(3))
        flows = Flows(bytes_out=bytes_out + private, private_out=private, written_bytes=written)
        traffic = EndpointTraffic(
            endpoint_id=endpoint.id,
            bytes_in=0,
            bytes_out=flows.bytes_out,
            connections_opened=1,
            private_out=private,
        )
        is_lost = self.random.random() < 0.2
        try:
            async with self.store.transaction() as rows:
                await rows.usage.add_traffic(traffic)
                await rows.usage.add_written(endpoint.id, written)
                if is_lost:
                    raise CrashError
        except CrashError:
            return
        self.uncounted[endpoint.branch_id] = self.uncounted.get(endpoint.branch_id, Flows()) + flows

    async def count(self, at: datetime) -> None:
        """Count, with new levels of one branch or without; sometimes control ends before the end."""
        levels = []
        if self.random.random() < 0.5:
            branch = self.random.choice(self.endpoints).branch_id
            size = self.random.randrange(10**10)
            changed = Levels(root_bytes=size, stored_bytes=size + self.random.randrange(10**9), logical_bytes=size)
            levels = [BranchLevels(project_id=self.endpoints[0].project_id, branch_id=branch, levels=changed)]
        is_lost = self.random.random() < 0.3
        try:
            async with self.store.transaction() as rows:
                await counting.count(rows, at, levels=levels)
                if is_lost:
                    raise CrashError
        except CrashError:
            return
        for branch_id, flows in self.uncounted.items():
            self.accounts[branch_id].use(at, flows)
        self.uncounted.clear()
        for each in levels:
            self.accounts[each.branch_id].store(at, each.levels)

    def project(self) -> AccountModel:
        """Both branches together."""
        total = AccountModel()
        for account in self.accounts.values():
            total.flows += account.flows
        held = {branch: Levels() for branch in self.accounts}
        changes = [(at, branch, each) for branch, model in self.accounts.items() for at, each in model.levels]
        for at, branch, levels in sorted(changes, key=lambda change: change[0]):
            held[branch] = levels
            total.store(at, sum(held.values(), Levels()))
        return total


async def read_projects(
    store: Store, window: Window, org_id: OrganizationId = ORGANIZATION
) -> dict[ProjectId, list[Period]]:
    history = History(org_id, window, METRICS)
    async with store.read() as rows:
        found = await rows.consumption_reads.list_projects(Range(org_id=org_id, start=window.start))
        return {project.id: periods async for project, periods in history.read_projects(rows, found)}


async def read_branches(store: Store, window: Window, project_id: ProjectId) -> dict[BranchId, list[Period]]:
    history = History(ORGANIZATION, window, BRANCH_METRICS_V2)
    wanted = Range(org_id=ORGANIZATION, start=window.start, only=[project_id])
    async with store.read() as rows:
        found = await rows.consumption_reads.list_branches(wanted, None, 100, None)
        return {branch.id: periods async for branch, periods in history.read_branches(rows, found)}


def values_of(periods: Sequence[Period], name: str, metrics: Sequence[Metric] = METRICS) -> list[float]:
    place = [metric.name for metric in metrics].index(name)
    return [bucket.values[place] for period in periods for bucket in period.buckets]


def make_window(granularity: Granularity, now: datetime, start: datetime = BEGIN) -> Window:
    return Window(granularity=granularity, start=granularity.start_of(start), end=now, now=now)


async def add_two_branches(store: Store) -> tuple[Branch, list[Endpoint]]:
    project = make_project(created_at=BEGIN, updated_at=BEGIN)
    branch, endpoint = await add_project(store, project, created_at=BEGIN)
    child = await add_branch(
        store, make_branch(project, name="dev", parent_id=branch.id, is_default=False, created_at=BEGIN)
    )
    other = make_endpoint(child)
    async with store.transaction() as rows:
        await rows.endpoints.add(other)
    return branch, [endpoint, other]


@pytest.mark.parametrize("seed", range(3))
async def test_sums_are_what_was_used_whatever_happened(store: Store, seed: int) -> None:
    steps = random.Random(seed)
    branch, endpoints = await add_two_branches(store)
    model = ProjectModel(store, endpoints, steps)
    at = BEGIN
    await model.count(at)
    for _ in range(60):
        await model.use()
        at += steps.choice([timedelta(0), MINUTE, 7 * MINUTE, 60 * MINUTE, timedelta(hours=13)])
        await model.count(at)
    while model.uncounted:
        await model.count(at)
    total, now = model.project(), at + 5 * MINUTE
    for granularity in Granularity:
        window = make_window(granularity, now)
        periods = (await read_projects(store, window))[branch.project_id]
        for name, flow in (("written_data_bytes", "written_bytes"), ("private_network_transfer_bytes", "private_out")):
            expected = [
                total.sum_flows(flow, bucket.start, bucket.end) for period in periods for bucket in period.buckets
            ]
            assert values_of(periods, name) == expected, (granularity, name)
        spans = [(bucket.start, min(bucket.end, now)) for period in periods for bucket in period.buckets]
        assert values_of(periods, "data_storage_bytes_hour") == [
            total.peak_hours("stored_bytes", *each) for each in spans
        ]
        hours = [each * HOURS_PER_MONTH for each in values_of(periods, "root_branch_bytes_month")]
        assert hours == pytest.approx([total.level_hours("root_bytes", *each) for each in spans], abs=0.01)
        of_branches = await read_branches(store, window, branch.project_id)
        for metric in BRANCH_METRICS_V2:
            sums = sum(sum(values_of(each, metric.name, BRANCH_METRICS_V2)) for each in of_branches.values())
            assert sums == pytest.approx(sum(values_of(periods, metric.name)), abs=0.01)


async def test_what_is_counted_is_counted_once(store: Store) -> None:
    branch, endpoints = await add_two_branches(store)
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoints[0].id, 5)
        await counting.count(rows, BEGIN + MINUTE)
        await counting.count(rows, BEGIN + 2 * MINUTE)
        assert await rows.usage.lock_uncounted() == []
    periods = (await read_projects(store, make_window(Granularity.MONTHLY, BEGIN + 3 * MINUTE)))[branch.project_id]
    assert sum(values_of(periods, "written_data_bytes")) == 5
    async with store.read() as rows:
        found = await rows.branch_pages.get(branch.project_id, branch.id)
    assert found is not None


async def test_only_the_running_time_can_be_counted(store: Store) -> None:
    branch, (endpoint, _) = await add_two_branches(store)
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 5)
        await rows.usage.start_metering(endpoint.id, BEGIN)
        await rows.usage.stop_metering(endpoint, BEGIN + MINUTE)
        await counting.count(rows, BEGIN + MINUTE, only_time=True)
        (left,) = await rows.usage.lock_uncounted()
    assert left.flows == Flows(written_bytes=5)
    periods = (await read_projects(store, make_window(Granularity.DAILY, BEGIN + 2 * MINUTE)))[branch.project_id]
    assert (values_of(periods, "active_time_seconds"), values_of(periods, "written_data_bytes")) == ([60.0], [0.0])
    assert values_of(periods, "compute_time_seconds") == [120.0]


async def test_a_clock_that_was_wrong_loses_nothing(store: Store) -> None:
    branch, (endpoint, _) = await add_two_branches(store)
    far = BEGIN + timedelta(days=400)
    for at in (BEGIN, far, BEGIN + MINUTE, BEGIN + timedelta(hours=2)):
        async with store.transaction() as rows:
            await rows.usage.add_written(endpoint.id, 10)
            await counting.count(rows, at)
    for granularity in Granularity:
        periods = (await read_projects(store, make_window(granularity, BEGIN + timedelta(hours=3))))[branch.project_id]
        assert sum(values_of(periods, "written_data_bytes")) == 40, granularity


async def test_usage_follows_the_organization_of_its_project(store: Store) -> None:
    branch, (endpoint, _) = await add_two_branches(store)
    other = OrganizationId.new()
    organization = Organization(
        id=other, name="team", handle=other, plan="free", personal_for=None, created_at=BEGIN, updated_at=BEGIN
    )
    async with store.transaction() as rows:
        await rows.organizations.add(organization)
    moved = BEGIN + 10 * MINUTE
    level = BranchLevels(
        project_id=branch.project_id, branch_id=branch.id, levels=Levels(root_bytes=744, stored_bytes=9)
    )
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 5)
        await counting.count(rows, BEGIN, levels=[level])
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 7)
        await counting.count(rows, moved, project_id=branch.project_id)
        await rows.projects.set_organization([branch.project_id], other, moved)
        await counting.follow_terms(rows, moved, [branch.project_id])
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 11)
        await counting.count(rows, BEGIN + 15 * MINUTE)
    now = BEGIN + 20 * MINUTE
    window = make_window(Granularity.HOURLY, now)
    before = (await read_projects(store, window))[branch.project_id]
    after = (await read_projects(store, window, other))[branch.project_id]
    assert (values_of(before, "written_data_bytes"), values_of(after, "written_data_bytes")) == ([12.0], [11.0])
    hours = [values_of(each, "root_branch_bytes_month")[0] for each in (before, after)]
    assert hours == pytest.approx([1 / 6, 1 / 6])
    assert (before[0].end, after[0].start, after[0].end) == (moved, moved, None)
    async with store.read() as rows:
        found = await rows.project_pages.get(branch.project_id)
    assert found is not None  # the counters of the month stay with the project


async def test_what_branches_store_is_found_without_being_told(store: Store) -> None:
    project = make_project(created_at=BEGIN, updated_at=BEGIN)
    branch, _ = await add_project(store, project, logical_size=100, created_at=BEGIN)
    child = await add_branch(
        store,
        make_branch(project, name="dev", parent_id=branch.id, is_default=False, logical_size=90, written_bytes=30),
    )
    async with store.transaction() as rows:
        lineage = await rows.lineages.get_by_volume(branch.volume_id)
        assert lineage is not None
        await rows.histories.save_history_start_and_size(lineage.id, began_at=None, began_lsn=None, history_bytes=1000)
        for number, (is_manual, full, own) in enumerate([(False, 500, 50), (False, 500, 20), (True, 300, 10)]):
            await _add_snapshot(rows, branch, number, is_manual=is_manual, full_bytes=full, own_bytes=own)
        changed = await rows.storage_levels.list_changed()
        await counting.count(rows, BEGIN, levels=changed)
        assert await rows.storage_levels.list_changed() == []
    found = {each.branch_id: each.levels for each in changed}
    root = Levels(root_bytes=100, history_bytes=1000, snapshot_bytes=820, stored_bytes=1180, logical_bytes=100)
    assert found == {
        branch.id: root,
        child.id: Levels(child_bytes=30, child_branches=1, stored_bytes=30, logical_bytes=90),
    }
    async with store.transaction() as rows:
        await rows.branches.save(replace(child, deleted_at=BEGIN))
        (gone,) = await rows.storage_levels.list_changed()
        assert (gone.branch_id, gone.levels) == (child.id, Levels())
        await rows.projects.save(replace(project, deleted_at=BEGIN))
        assert {each.levels for each in await rows.storage_levels.list_changed()} == {Levels()}


async def _add_snapshot(
    rows: Rows, branch: Branch, number: int, *, is_manual: bool, full_bytes: int, own_bytes: int
) -> None:
    volume, at = VolumeId.new(), BEGIN + number * MINUTE
    await rows.lineages.add_volume(Volume(id=volume, project_id=branch.project_id, created_at=at))
    await rows.snapshots.add(
        Snapshot(
            id=SnapshotId.new(),
            project_id=branch.project_id,
            branch_id=branch.id,
            volume_id=volume,
            name=str(number),
            state=SnapshotState.READY,
            is_manual=is_manual,
            full_bytes=full_bytes,
            own_bytes=own_bytes,
            created_at=at,
            updated_at=at,
        )
    )


async def test_old_buckets_go_and_what_is_stored_stays_known(store: Store) -> None:
    branch, (endpoint, _) = await add_two_branches(store)
    level = BranchLevels(project_id=branch.project_id, branch_id=branch.id, levels=Levels(root_bytes=744))
    for hours, levels in ((0, [level]), (1, []), (30, [])):
        async with store.transaction() as rows:
            await rows.usage.add_written(endpoint.id, 5)
            await counting.count(rows, BEGIN + timedelta(hours=hours), levels=levels)
    now = BEGIN + timedelta(hours=50)
    window = make_window(Granularity.HOURLY, now, start=BEGIN + timedelta(hours=40))
    before = await read_projects(store, window)
    async with store.transaction() as rows:
        cutoff = Granularity.HOURLY.start_of(BEGIN + timedelta(hours=40))
        assert await rows.consumption.delete_before(Granularity.HOURLY, cutoff) == 4  # of two accounts
        assert await rows.consumption.delete_before(Granularity.HOURLY, cutoff) == 0
    after = await read_projects(store, window)
    assert after == before
    assert values_of(after[branch.project_id], "root_branch_bytes_month")[0] == 1


async def test_projects_are_paged_the_newest_first(store: Store) -> None:
    projects = [make_project(minute) for minute in (3, 1, 1, 2)]
    for project in projects:
        await add_project(store, project)
    expected = [each.id for each in sorted(projects, key=lambda each: (each.created_at, each.id), reverse=True)]
    wanted = Range(org_id=ORGANIZATION, start=BEGIN)
    async with store.read() as rows:
        reads = rows.consumption_reads
        assert [each.id for each in await reads.list_projects(wanted)] == expected
        assert [each.id for each in await reads.list_projects(wanted, 2)] == expected[:2]
        assert [each.id for each in await reads.list_projects(wanted, 2, expected[1])] == expected[2:]
        some = replace(wanted, only=expected[1:3], readable=expected[:2])
        assert [each.id for each in await reads.list_projects(some)] == expected[1:2]


async def test_deleted_projects_are_listed_while_they_are_in_the_range(store: Store) -> None:
    gone = make_project(deleted_at=BEGIN, recoverable_until=BEGIN)
    await add_project(store, gone)
    async with store.transaction() as rows:
        await counting.follow_terms(rows, BEGIN)
        for start, expected in ((start_of_month(BEGIN), [gone.id]), (BEGIN, [])):
            found = await rows.consumption_reads.list_projects(Range(org_id=ORGANIZATION, start=start))
            assert [each.id for each in found] == expected
