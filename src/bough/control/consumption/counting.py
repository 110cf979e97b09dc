"""Moves usage and changed levels into the consumption history.

Everything happens in one transaction: what is added to the buckets is deducted from the usage of the endpoints, so a
crash neither loses nor doubles it. Buckets of an hour, a day and a month are written together and agree.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bough.chunks import iterate_chunks
from bough.domain.consumption import Bucket, Flows, Granularity, Levels, record
from bough.domain.consumption_periods import ProjectTerm
from bough.ids import ProjectId
from bough.store.consumption import Account, BucketChange, KnownLevels, OwnedProject
from bough.store.storage_levels import BranchLevels
from bough.store.store import Rows
from bough.store.usage import UncountedUsage

_BATCH_SIZE = 100  # accounts that are read and written together
_TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class _Change:
    """What is recorded for one account."""

    flows: Flows = field(default_factory=Flows)
    levels: Levels | None = None  # None: they stay
    more: Levels = field(default_factory=Levels)  # of a project: what is added to its levels


async def count(
    rows: Rows,
    at: datetime,
    *,
    project_id: ProjectId | None = None,
    levels: Sequence[BranchLevels] = (),
    only_time: bool = False,
) -> None:
    """Count the usage of all projects, or of one, until `at`, and these levels since then.

    With `only_time` the running time of computes is counted and nothing else.
    """
    began_at = await rows.consumption.lock()
    uncounted = [_restrict(each, only_time=only_time) for each in await rows.usage.lock_uncounted(project_id)]
    uncounted = [each for each in uncounted if each.flows != Flows()]
    changes = _collect_flows(uncounted)
    await _add_levels(rows, changes, levels)
    project_ids = {account.project_id for account in changes}
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


def _collect_flows(uncounted: Iterable[UncountedUsage]) -> dict[Account, _Change]:
    changes: dict[Account, _Change] = {}
    for each in uncounted:
        for account in (Account(each.project_id, each.branch_id), Account(each.project_id)):
            change = changes.setdefault(account, _Change())
            change.flows += each.flows
    return changes


async def _add_levels(rows: Rows, changes: dict[Account, _Change], levels: Sequence[BranchLevels]) -> None:
    async for chunk in iterate_chunks(levels, _BATCH_SIZE):
        known = await rows.consumption.get_levels([Account(each.project_id, each.branch_id) for each in chunk])
        for each in chunk:
            account = Account(each.project_id, each.branch_id)
            before = known[account].levels if account in known else Levels()
            changes.setdefault(account, _Change()).levels = each.levels
            project = changes.setdefault(Account(each.project_id), _Change())
            project.more += each.levels - before


async def _start_first_terms(rows: Rows, projects: Collection[ProjectId], began_at: datetime, at: datetime) -> None:
    async for chunk in iterate_chunks(sorted(projects), _BATCH_SIZE):
        for owned in await rows.consumption.list_changed_terms(chunk):
            if not await rows.consumption.has_term(owned.project_id):
                await _start_first_term(rows, owned, began_at, at)


async def _start_first_term(rows: Rows, owned: OwnedProject, began_at: datetime, at: datetime) -> None:
    since = min(max(owned.created_at, began_at), at)
    await rows.consumption.start_term(_term(owned, since, is_first=True))
    await rows.consumption.save_levels({Account(owned.project_id): KnownLevels(since=since, levels=Levels())}, known=())


async def _change_term(rows: Rows, owned: OwnedProject, at: datetime) -> None:
    """Let the levels of the project and its branches end with the old term and begin with the new one."""
    held = await rows.consumption.list_levels(owned.project_id)
    since = max([at, *(each.since + _TICK for each in held.values())])
    await _record(rows, {account: _Change(levels=Levels()) for account in held}, since)
    await rows.consumption.start_term(_term(owned, since))
    begun = {account: KnownLevels(since=since, levels=Levels()) for account in held}
    await rows.consumption.save_levels(begun, known=held)
    await _record(rows, {account: _Change(levels=each.levels) for account, each in held.items()}, since)


def _term(owned: OwnedProject, since: datetime, *, is_first: bool = False) -> ProjectTerm:
    return ProjectTerm(
        project_id=owned.project_id, since=since, org_id=owned.org_id, plan=owned.plan, is_first=is_first
    )


async def _record(rows: Rows, changes: Mapping[Account, _Change], at: datetime) -> None:
    async for chunk in iterate_chunks(list(changes), _BATCH_SIZE):
        known = await rows.consumption.get_levels({*chunk, *(Account(each.project_id) for each in chunk)})
        newest = await rows.consumption.get_newest_buckets(chunk)
        after: dict[Account, KnownLevels] = {}
        buckets: list[BucketChange] = []
        for account in chunk:
            change, before = changes[account], known.get(account)
            if before is None and Account(account.project_id) not in known:
                continue  # the project was removed meanwhile
            if before is None:
                # A branch is counted since its project's term began, or since it was created, which is the same here:
                # before, it stored nothing.
                before = KnownLevels(since=known[Account(account.project_id)].since, levels=Levels())
            levels = (before.levels if change.levels is None else change.levels) + change.more
            after[account] = KnownLevels(since=before.since, levels=levels)
            for granularity in Granularity:
                bucket = newest.get((account, granularity))
                writer = _BucketWriter(rows, account, granularity, before)
                buckets += await writer.write(bucket, at, change.flows, levels)
        await rows.consumption.save_buckets(buckets)
        await rows.consumption.save_levels(after, known=known)


@dataclass(frozen=True, slots=True)
class _BucketWriter:
    rows: Rows
    account: Account
    granularity: Granularity
    before: KnownLevels

    async def write(self, newest: Bucket | None, at: datetime, flows: Flows, levels: Levels) -> list[BucketChange]:
        start = self.granularity.start_of(at)
        if newest is not None and newest.start > start:
            newest, later = await self._go_back(start)
            flows = sum(later, flows)
        known = None if newest is None else newest.start
        if newest is None:
            newest = Bucket.begin(start, max(start, min(self.before.since, at)), self.before.levels)
        return [
            BucketChange(
                account=self.account,
                granularity=self.granularity,
                since=self.before.since,
                bucket=bucket,
                is_new=bucket.start != known,
            )
            for bucket in record(newest, self.granularity, at, flows, levels)
        ]

    async def _go_back(self, start: datetime) -> tuple[Bucket | None, list[Flows]]:
        """The clock was set back: what was counted for later buckets belongs to the present one."""
        later = await self.rows.consumption.take_later_buckets(self.account, self.granularity, self.before.since, start)
        found = await self.rows.consumption.get_newest_buckets([self.account])
        return found.get((self.account, self.granularity)), [each.flows for each in later]
