"""Moves usage and changed amounts into the consumption history.

Everything happens in one transaction: what is added to the buckets is deducted from the usage of the endpoints, so a
crash neither loses nor doubles it. Buckets of an hour, a day and a month are written together and agree.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bough.chunks import iterate_chunks
from bough.domain.consumption import Amounts, Bucket, Flows, Granularity, record
from bough.domain.consumption_periods import ProjectTerm
from bough.ids import ProjectId
from bough.store.consumption import BucketChange, Consumer, KnownAmounts, OwnedProject
from bough.store.store import Rows
from bough.store.stored_amounts import BranchAmounts
from bough.store.usage import UncountedUsage

_BATCH_SIZE = 100  # consumers that are read and written together
_TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class _Change:
    """What is recorded for one consumer."""

    flows: Flows = field(default_factory=Flows)
    amounts: Amounts | None = None  # None: they stay
    more: Amounts = field(default_factory=Amounts)  # of a project: what is added to its amounts


async def count(
    rows: Rows,
    at: datetime,
    *,
    project_id: ProjectId | None = None,
    amounts: Sequence[BranchAmounts] = (),
    only_time: bool = False,
) -> None:
    """Count the usage of all projects, or of one, until `at`, and these amounts since then.

    With `only_time` the running time of computes is counted and nothing else.
    """
    began_at = await rows.consumption.lock()
    uncounted = [_restrict(each, only_time=only_time) for each in await rows.usage.lock_uncounted(project_id)]
    uncounted = [each for each in uncounted if each.flows != Flows()]
    changes = _collect_flows(uncounted)
    await _add_amounts(rows, changes, amounts)
    project_ids = {consumer.project_id for consumer in changes}
    await _start_first_terms(rows, project_ids, began_at, at)
    await _record(rows, changes, at)
    await rows.usage.deduct([(each.endpoint_id, each.flows) for each in uncounted], remains=only_time)


async def follow_terms(rows: Rows, at: datetime, projects: Collection[ProjectId] | None = None) -> None:
    """Begin a new term for projects whose organization or plan has changed. Their usage is counted already."""
    began_at = await rows.consumption.lock()
    for owned in await rows.consumption.list_changed_terms(projects):
        if await rows.consumption.has_term(owned.project_id):
            await _change_term(rows, owned, at)
        else:
            await _start_first_term(rows, owned, began_at, at)


def _restrict(usage: UncountedUsage, *, only_time: bool) -> UncountedUsage:
    if not only_time:
        return usage
    time = Flows(active_seconds=usage.flows.active_seconds, compute_seconds=usage.flows.compute_seconds)
    return UncountedUsage(
        endpoint_id=usage.endpoint_id, project_id=usage.project_id, branch_id=usage.branch_id, flows=time
    )


def _collect_flows(uncounted: Iterable[UncountedUsage]) -> dict[Consumer, _Change]:
    changes: dict[Consumer, _Change] = {}
    for each in uncounted:
        for consumer in (Consumer(each.project_id, each.branch_id), Consumer(each.project_id)):
            change = changes.setdefault(consumer, _Change())
            change.flows += each.flows
    return changes


async def _add_amounts(rows: Rows, changes: dict[Consumer, _Change], amounts: Sequence[BranchAmounts]) -> None:
    async for chunk in iterate_chunks(amounts, _BATCH_SIZE):
        known = await rows.consumption.get_amounts([Consumer(each.project_id, each.branch_id) for each in chunk])
        for each in chunk:
            consumer = Consumer(each.project_id, each.branch_id)
            before = known[consumer].amounts if consumer in known else Amounts()
            changes.setdefault(consumer, _Change()).amounts = each.amounts
            project = changes.setdefault(Consumer(each.project_id), _Change())
            project.more += each.amounts - before


async def _start_first_terms(rows: Rows, projects: Collection[ProjectId], began_at: datetime, at: datetime) -> None:
    async for chunk in iterate_chunks(sorted(projects), _BATCH_SIZE):
        for owned in await rows.consumption.list_changed_terms(chunk):
            if not await rows.consumption.has_term(owned.project_id):
                await _start_first_term(rows, owned, began_at, at)


async def _start_first_term(rows: Rows, owned: OwnedProject, began_at: datetime, at: datetime) -> None:
    since = min(max(owned.created_at, began_at), at)
    await rows.consumption.start_term(_term(owned, since, is_first=True))
    await rows.consumption.save_amounts(
        {Consumer(owned.project_id): KnownAmounts(since=since, amounts=Amounts())}, known=()
    )


async def _change_term(rows: Rows, owned: OwnedProject, at: datetime) -> None:
    """Let the amounts of the project and its branches end with the old term and begin with the new one."""
    held = await rows.consumption.list_amounts(owned.project_id)
    since = max([at, *(each.since + _TICK for each in held.values())])
    await _record(rows, {consumer: _Change(amounts=Amounts()) for consumer in held}, since)
    await rows.consumption.start_term(_term(owned, since))
    begun = {consumer: KnownAmounts(since=since, amounts=Amounts()) for consumer in held}
    await rows.consumption.save_amounts(begun, known=held)
    await _record(rows, {consumer: _Change(amounts=each.amounts) for consumer, each in held.items()}, since)


def _term(owned: OwnedProject, since: datetime, *, is_first: bool = False) -> ProjectTerm:
    return ProjectTerm(
        project_id=owned.project_id, since=since, org_id=owned.org_id, plan=owned.plan, is_first=is_first
    )


async def _record(rows: Rows, changes: Mapping[Consumer, _Change], at: datetime) -> None:
    async for chunk in iterate_chunks(list(changes), _BATCH_SIZE):
        known = await rows.consumption.get_amounts({*chunk, *(Consumer(each.project_id) for each in chunk)})
        newest = await rows.consumption.get_newest_buckets(chunk)
        after: dict[Consumer, KnownAmounts] = {}
        buckets: list[BucketChange] = []
        for consumer in chunk:
            change, before = changes[consumer], known.get(consumer)
            if before is None and Consumer(consumer.project_id) not in known:
                continue  # the project was removed meanwhile
            if before is None:
                # A branch is counted since its project's term began, or since it was created, which is the same here:
                # before, it stored nothing.
                before = KnownAmounts(since=known[Consumer(consumer.project_id)].since, amounts=Amounts())
            amounts = (before.amounts if change.amounts is None else change.amounts) + change.more
            after[consumer] = KnownAmounts(since=before.since, amounts=amounts)
            for granularity in Granularity:
                bucket = newest.get((consumer, granularity))
                writer = _BucketWriter(rows, consumer, granularity, before)
                buckets += await writer.write(bucket, at, change.flows, amounts)
        await rows.consumption.save_buckets(buckets)
        await rows.consumption.save_amounts(after, known=known)


@dataclass(frozen=True, slots=True)
class _BucketWriter:
    rows: Rows
    consumer: Consumer
    granularity: Granularity
    before: KnownAmounts

    async def write(self, newest: Bucket | None, at: datetime, flows: Flows, amounts: Amounts) -> list[BucketChange]:
        start = self.granularity.start_of(at)
        if newest is not None and newest.start > start:
            newest, later = await self._go_back(start)
            flows = sum(later, flows)
        known = None if newest is None else newest.start
        if newest is None:
            newest = Bucket.begin(start, max(start, min(self.before.since, at)), self.before.amounts)
        return [
            BucketChange(
                consumer=self.consumer,
                granularity=self.granularity,
                since=self.before.since,
                bucket=bucket,
                is_new=bucket.start != known,
            )
            for bucket in record(newest, self.granularity, at, flows, amounts)
        ]

    async def _go_back(self, start: datetime) -> tuple[Bucket | None, list[Flows]]:
        """The clock was set back: what was counted for later buckets belongs to the present one."""
        later = await self.rows.consumption.take_later_buckets(
            self.consumer, self.granularity, self.before.since, start
        )
        found = await self.rows.consumption.get_newest_buckets([self.consumer])
        return found.get((self.consumer, self.granularity)), [each.flows for each in later]
