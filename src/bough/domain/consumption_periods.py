"""The periods of a consumption history: calendar months in UTC, cut where the plan or the organization changes."""

import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from bough.domain.calendar_month import start_of_month, start_of_next_month
from bough.domain.consumption import Granularity, to_microseconds
from bough.domain.consumption_metrics import START, UNTIL, Evaluator, Rest, StoredBucket
from bough.ids import OrganizationId, ProjectId

_NAMESPACE = uuid.UUID("a2b2a0ce-6d1c-4d5e-9f57-5d3f5b0d1c11")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTerm:
    """The time during which a project belongs to an organization that has a plan."""

    project_id: ProjectId
    since: datetime
    org_id: OrganizationId
    plan: str
    ended_at: datetime | None = None
    is_first: bool = False  # of its project: a period does not begin with it


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSpan:
    """The buckets that were asked for."""

    granularity: Granularity
    start: datetime
    end: datetime  # exclusive; not after now
    now: datetime

    def list_bounds(self) -> list["_Bounds"]:
        """Return the start and end of each bucket."""
        bounds, start = [], self.start
        while start < self.end:
            end = self.granularity.end_of(start)
            bounds.append(_Bounds(start, end, to_microseconds(start), to_microseconds(end)))
            start = end
        return bounds


class _Bounds(NamedTuple):
    start: datetime
    end: datetime
    from_: int  # in microseconds
    until: int


@dataclass(slots=True)
class BucketValues:
    start: datetime
    end: datetime
    values: Sequence[float]  # in the order of the metrics


@dataclass(slots=True)
class Period:
    term: ProjectTerm
    month_end: datetime
    start: datetime
    end: datetime | None  # None: it is not over
    # Of the organization: cut where its plan changed, and not where the project came or went.
    org_start: datetime
    org_end: datetime | None
    buckets: list[BucketValues] = field(default_factory=list)

    @property
    def plan(self) -> str:
        return self.term.plan

    @property
    def id(self) -> uuid.UUID:
        return uuid.uuid5(_NAMESPACE, f"{self.term.org_id} {self.start.isoformat()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A project or branch whose consumption is read."""

    created_at: datetime
    deleted_at: datetime | None


class PeriodBuilder:
    def __init__(self, span: BucketSpan, evaluator: Evaluator) -> None:
        self._span = span
        self._evaluator = evaluator
        self._bounds = span.list_bounds()

    def build(
        self, lifetime: Lifetime, terms: Sequence[ProjectTerm], stored: Mapping[int, Sequence[StoredBucket]]
    ) -> list[Period]:
        """Return the periods in order. `stored` are the buckets of each term, by the microseconds at which
        it began, oldest first.

        The first one of a term may begin before the span: its amounts were held until the next one.
        """
        periods: list[Period] = []
        plan_changes = {term.since for term in terms} & {term.ended_at for term in terms}
        for term in terms:
            for values in self._list_values(lifetime, term, stored.get(to_microseconds(term.since), ())):
                if periods and values.start < periods[-1].month_end and periods[-1].term is term:
                    periods[-1].buckets.append(values)
                else:
                    periods.append(self._begin_period(term, values, plan_changes))
        return periods

    def _begin_period(self, term: ProjectTerm, first: BucketValues, plan_changes: Set[datetime | None]) -> Period:
        month, now = start_of_month(first.start), self._span.now
        month_end = start_of_next_month(month)
        start = month if term.is_first else max(month, term.since)
        end = month_end if term.ended_at is None else min(month_end, term.ended_at)
        return Period(
            term=term,
            month_end=month_end,
            start=start,
            end=_if_over(end, now),
            org_start=start if term.since in plan_changes else month,
            org_end=_if_over(end if term.ended_at in plan_changes else month_end, now),
            buckets=[first],
        )

    def _list_values(
        self, lifetime: Lifetime, term: ProjectTerm, stored: Sequence[StoredBucket]
    ) -> Iterator[BucketValues]:
        begin = to_microseconds(max(term.since, lifetime.created_at))
        ends = (self._span.now, term.ended_at, lifetime.deleted_at)
        end = to_microseconds(min(each for each in ends if each is not None))
        if begin >= end:
            return
        evaluator, position, last = self._evaluator, 0, len(stored)
        closed = evaluator.compute_closed(stored)
        for start, bucket_end, from_, until in self._bounds:
            if until <= begin:
                continue
            if from_ >= end:
                return
            while position < last and stored[position][START] < from_:
                position += 1
            counted_end = min(until, end)
            if position < last and stored[position][START] == from_:
                bucket = stored[position]
                if bucket[UNTIL] >= counted_end:
                    values = closed[position]
                else:
                    values = evaluator.compute(bucket, Rest.of(bucket[UNTIL], counted_end, is_held=False))
            else:
                held = evaluator.hold(stored[position - 1]) if position else evaluator.nothing()
                values = evaluator.compute(held, Rest.of(max(from_, begin), counted_end, is_held=True))
            yield BucketValues(start, bucket_end, values)


def _if_over(end: datetime, now: datetime) -> datetime | None:
    return end if end <= now else None


def add_up_periods(of_projects: Sequence[Sequence[Period]]) -> list[Period]:
    """Return the periods of an organization: the sums over its projects.

    A project that joined the organization in the middle of a month has a shorter period, which counts for the month.
    """
    totals: dict[tuple[datetime, str], Period] = {}
    sums: dict[tuple[datetime, str], dict[datetime, BucketValues]] = {}
    for period in (each for periods in of_projects for each in periods):
        key = (period.org_start, period.plan)
        if key not in totals:
            totals[key] = replace(period, start=period.org_start, end=period.org_end, buckets=[])
        buckets = sums.setdefault(key, {})
        for each in period.buckets:
            known = buckets.setdefault(each.start, BucketValues(each.start, each.end, [0.0] * len(each.values)))
            known.values = [a + b for a, b in zip(known.values, each.values, strict=True)]
    for key, total in totals.items():
        total.buckets = sorted(sums[key].values(), key=lambda each: each.start)
    return [totals[key] for key in sorted(totals)]
