"""The periods of a consumption history: calendar months in UTC, cut where the plan or the organization changes."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bough.domain.calendar_month import start_of_month, start_of_next_month
from bough.domain.consumption import Granularity
from bough.domain.consumption_metrics import Metric, Rest, Row, held_row
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
class Window:
    """The buckets that were asked for."""

    granularity: Granularity
    start: datetime
    end: datetime  # exclusive; not after now
    now: datetime


@dataclass(slots=True)
class BucketValues:
    start: datetime
    end: datetime
    values: list[float]  # in the order of the metrics


@dataclass(slots=True)
class Period:
    org_id: OrganizationId
    plan: str
    start: datetime
    end: datetime | None  # None: it is not over
    # Of the organization: cut where its plan changed, and not where the project came or went.
    org_start: datetime
    org_end: datetime | None
    buckets: list[BucketValues] = field(default_factory=list)

    @property
    def id(self) -> uuid.UUID:
        return uuid.uuid5(_NAMESPACE, f"{self.org_id} {self.start.isoformat()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A project or branch whose consumption is read."""

    created_at: datetime
    deleted_at: datetime | None


def build_periods(
    owner: Owner,
    terms: Sequence[ProjectTerm],
    rows: Mapping[datetime, Sequence[Row]],
    window: Window,
    metrics: Sequence[Metric],
) -> list[Period]:
    """Return the periods in order. `rows` are the stored buckets of each term, oldest first.

    The first one of a term may begin before the window: its levels were held until the next one.
    """
    periods: list[Period] = []
    plan_changes = {term.since for term in terms} & {term.ended_at for term in terms}
    for term in terms:
        for values in _list_buckets(owner, term, rows.get(term.since, ()), window, metrics):
            month = start_of_month(values.start)
            start = month if term.is_first else max(month, term.since)
            if not periods or (periods[-1].start, periods[-1].plan) != (start, term.plan):
                month_end = start_of_next_month(month)
                end = month_end if term.ended_at is None else min(month_end, term.ended_at)
                periods.append(
                    Period(
                        org_id=term.org_id,
                        plan=term.plan,
                        start=start,
                        end=_if_over(end, window.now),
                        org_start=start if term.since in plan_changes else month,
                        org_end=_if_over(end if term.ended_at in plan_changes else month_end, window.now),
                    )
                )
            periods[-1].buckets.append(values)
    return periods


def _if_over(end: datetime, now: datetime) -> datetime | None:
    return end if end <= now else None


def _list_buckets(
    owner: Owner, term: ProjectTerm, rows: Sequence[Row], window: Window, metrics: Sequence[Metric]
) -> Iterator[BucketValues]:
    granularity = window.granularity
    begin = max(term.since, owner.created_at)
    end = min(each for each in (window.now, term.ended_at, owner.deleted_at) if each is not None)
    if begin >= end:
        return
    start = max(window.start, granularity.start_of(begin))
    remaining = iter(rows)
    following = next(remaining, None)
    held = held_row(None)
    while start < min(window.end, end):
        while following is not None and following["start"] < start:
            held, following = held_row(following), next(remaining, None)
        bucket_end = granularity.end_of(start)
        counted_end = min(bucket_end, end)
        if following is not None and following["start"] == start:
            row, rest = following, Rest.of(following["until"], counted_end, is_held=False)
        else:
            row, rest = held, Rest.of(max(start, begin), counted_end, is_held=True)
        yield BucketValues(start, bucket_end, [metric.compute(row, rest) for metric in metrics])
        start = bucket_end


def add_up_periods(of_projects: Sequence[Sequence[Period]]) -> list[Period]:
    """Return the periods of an organization: the sums over its projects.

    A project that joined the organization in the middle of a month has a shorter period, which counts for the month.
    """
    totals: dict[tuple[datetime, str], Period] = {}
    sums: dict[tuple[datetime, str], dict[datetime, BucketValues]] = {}
    for period in (each for periods in of_projects for each in periods):
        key = (period.org_start, period.plan)
        if key not in totals:
            start, end = period.org_start, period.org_end
            totals[key] = Period(period.org_id, period.plan, start, end, org_start=start, org_end=end)
        buckets = sums.setdefault(key, {})
        for each in period.buckets:
            known = buckets.setdefault(each.start, BucketValues(each.start, each.end, [0.0] * len(each.values)))
            known.values = [a + b for a, b in zip(known.values, each.values, strict=True)]
    for key, total in totals.items():
        total.buckets = sorted(sums[key].values(), key=lambda each: each.start)
    return [totals[key] for key in sorted(totals)]
