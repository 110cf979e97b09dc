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
from bough.domain.consumption import Amounts, Flows, Granularity
from bough.domain.consumption_metrics import (
    BRANCH_METRICS_V2,
    HOURS_PER_MONTH,
    PROJECT_METRICS,
    PROJECT_METRICS_V2,
    Metric,
)
from bough.domain.consumption_periods import BucketSpan, Period
from bough.domain.endpoint import Endpoint
from bough.domain.organization import Organization
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.domain.usage import EndpointTraffic
from bough.ids import BranchId, OrganizationId, ProjectId, SnapshotId, VolumeId
from bough.store.consumption_reads import Range
from bough.store.store import Rows, Store
from bough.store.stored_amounts import BranchAmounts
from control.consumption.counting_model import ConsumerModel
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
        self.consumers = {each.branch_id: ConsumerModel() for each in endpoints}
        for consumer in self.consumers.values():
            consumer.store(BEGIN, Amounts())
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
        """Count, with new amounts of one branch or without; sometimes control ends before the end."""
        amounts = []
        if self.random.random() < 0.5:
            branch = self.random.choice(self.endpoints).branch_id
            size = self.random.randrange(10**10)
            changed = Amounts(root_bytes=size, stored_bytes=size + self.random.randrange(10**9), logical_bytes=size)
            amounts = [BranchAmounts(project_id=self.endpoints[0].project_id, branch_id=branch, amounts=changed)]
        is_lost = self.random.random() < 0.3
        try:
            async with self.store.transaction() as rows:
                await counting.count(rows, at, amounts=amounts)
                if is_lost:
                    raise CrashError
        except CrashError:
            return
        for branch_id, flows in self.uncounted.items():
            self.consumers[branch_id].use(at, flows)
        self.uncounted.clear()
        for each in amounts:
            self.consumers[each.branch_id].store(at, each.amounts)

    def project(self) -> ConsumerModel:
        """Both branches together."""
        total = ConsumerModel()
        for consumer in self.consumers.values():
            total.flows += consumer.flows
        held = {branch: Amounts() for branch in self.consumers}
        changes = [(at, branch, each) for branch, model in self.consumers.items() for at, each in model.amounts]
        for at, branch, amounts in sorted(changes, key=lambda change: change[0]):
            held[branch] = amounts
            total.store(at, sum(held.values(), Amounts()))
        return total


async def read_projects(
    store: Store, span: BucketSpan, org_id: OrganizationId = ORGANIZATION
) -> dict[ProjectId, list[Period]]:
    history = History(org_id, span, METRICS)
    async with store.read() as rows:
        found = await rows.consumption_reads.list_projects(Range(org_id=org_id, start=span.start))
        return {project.id: periods async for project, periods in history.read_projects(rows, found)}


async def read_branches(store: Store, span: BucketSpan, project_id: ProjectId) -> dict[BranchId, list[Period]]:
    history = History(ORGANIZATION, span, BRANCH_METRICS_V2)
    wanted = Range(org_id=ORGANIZATION, start=span.start, only=[project_id])
    async with store.read() as rows:
        found = await rows.consumption_reads.list_branches(wanted, None, 100, None)
        return {branch.id: periods async for branch, periods in history.read_branches(rows, found)}


def values_of(periods: Sequence[Period], name: str, metrics: Sequence[Metric] = METRICS) -> list[float]:
    place = [metric.name for metric in metrics].index(name)
    return [bucket.values[place] for period in periods for bucket in period.buckets]


def make_span(granularity: Granularity, now: datetime, start: datetime = BEGIN) -> BucketSpan:
    return BucketSpan(granularity=granularity, start=granularity.start_of(start), end=now, now=now)


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
        span = make_span(granularity, now)
        periods = (await read_projects(store, span))[branch.project_id]
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
        assert hours == pytest.approx([total.amount_hours("root_bytes", *each) for each in spans], abs=0.01)
        of_branches = await read_branches(store, span, branch.project_id)
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
    periods = (await read_projects(store, make_span(Granularity.MONTHLY, BEGIN + 3 * MINUTE)))[branch.project_id]
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
    periods = (await read_projects(store, make_span(Granularity.DAILY, BEGIN + 2 * MINUTE)))[branch.project_id]
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
        periods = (await read_projects(store, make_span(granularity, BEGIN + timedelta(hours=3))))[branch.project_id]
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
    amount = BranchAmounts(
        project_id=branch.project_id, branch_id=branch.id, amounts=Amounts(root_bytes=744, stored_bytes=9)
    )
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 5)
        await counting.count(rows, BEGIN, amounts=[amount])
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 7)
        await counting.count(rows, moved, project_id=branch.project_id)
        await rows.projects.set_organization([branch.project_id], other, moved)
        await counting.follow_terms(rows, moved, [branch.project_id])
    async with store.transaction() as rows:
        await rows.usage.add_written(endpoint.id, 11)
        await counting.count(rows, BEGIN + 15 * MINUTE)
    now = BEGIN + 20 * MINUTE
    span = make_span(Granularity.HOURLY, now)
    before = (await read_projects(store, span))[branch.project_id]
    after = (await read_projects(store, span, other))[branch.project_id]
    assert (values_of(before, "written_data_bytes"), values_of(after, "written_data_bytes")) == ([12.0], [11.0])
    hours = [values_of(each, "root_branch_bytes_month")[0] for each in (before, after)]
    assert hours == pytest.approx([1 / 6, 1 / 6])
    assert (before[0].end, after[0].start, after[0].end) == (moved, moved, None)
    async with store.read() as rows:
        found = await rows.project_pages.get(branch.project_id)
    assert found is not None  # the counters of the month stay with the project


async def test_a_transfer_while_the_clock_was_wrong_does_not_stop_the_counting(store: Store) -> None:
    branch, (endpoint, _) = await add_two_branches(store)
    other = OrganizationId.new()
    organization = Organization(
        id=other, name="team", handle=other, plan="free", personal_for=None, created_at=BEGIN, updated_at=BEGIN
    )
    wrong = BEGIN + timedelta(days=40)
    async with store.transaction() as rows:
        await rows.organizations.add(organization)
        await rows.usage.add_written(endpoint.id, 1)
        await counting.count(rows, wrong)
        await rows.projects.set_organization([branch.project_id], other, wrong)
        await counting.follow_terms(rows, wrong, [branch.project_id])
    for minutes in (1, 2, 3):
        async with store.transaction() as rows:
            await rows.usage.add_written(endpoint.id, 10)
            await counting.count(rows, BEGIN + minutes * MINUTE)
    async with store.transaction() as rows:
        assert await rows.usage.lock_uncounted() == []


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
        changed = await rows.stored_amounts.list_changed()
        await counting.count(rows, BEGIN, amounts=changed)
        assert await rows.stored_amounts.list_changed() == []
    found = {each.branch_id: each.amounts for each in changed}
    root = Amounts(root_bytes=100, history_bytes=1000, snapshot_bytes=820, stored_bytes=1180, logical_bytes=100)
    assert found == {
        branch.id: root,
        child.id: Amounts(child_bytes=30, child_branches=1, stored_bytes=30, logical_bytes=90),
    }
    async with store.transaction() as rows:
        await rows.branches.save(replace(child, deleted_at=BEGIN))
        (gone,) = await rows.stored_amounts.list_changed()
        assert (gone.branch_id, gone.amounts) == (child.id, Amounts())
        await rows.projects.save(replace(project, deleted_at=BEGIN))
        assert {each.amounts for each in await rows.stored_amounts.list_changed()} == {Amounts()}


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
    amount = BranchAmounts(project_id=branch.project_id, branch_id=branch.id, amounts=Amounts(root_bytes=744))
    for hours, amounts in ((0, [amount]), (1, []), (30, [])):
        async with store.transaction() as rows:
            await rows.usage.add_written(endpoint.id, 5)
            await counting.count(rows, BEGIN + timedelta(hours=hours), amounts=amounts)
    now = BEGIN + timedelta(hours=50)
    span = make_span(Granularity.HOURLY, now, start=BEGIN + timedelta(hours=40))
    before = await read_projects(store, span)
    async with store.transaction() as rows:
        cutoff = Granularity.HOURLY.start_of(BEGIN + timedelta(hours=40))
        assert await rows.consumption.delete_before(Granularity.HOURLY, cutoff) == 4  # of two consumers
        assert await rows.consumption.delete_before(Granularity.HOURLY, cutoff) == 0
    after = await read_projects(store, span)
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
