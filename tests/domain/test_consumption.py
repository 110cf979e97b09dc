"""Buckets of hours, days and months: what was used and stored, against a model that keeps every event."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain.consumption import (
    AMOUNT_NAMES,
    FLOW_NAMES,
    PEAK_NAMES,
    Amounts,
    Bucket,
    Flows,
    Granularity,
    record,
    to_microseconds,
)
from bough.domain.consumption_metrics import (
    BRANCH_METRICS_V2,
    HOURS_PER_MONTH,
    PROJECT_METRICS,
    PROJECT_METRICS_V2,
    Evaluator,
    StoredBucket,
    select_metrics,
)
from bough.domain.consumption_periods import (
    BucketSpan,
    Lifetime,
    Period,
    PeriodBuilder,
    ProjectTerm,
    add_up_periods,
)
from bough.errors import Invalid
from bough.ids import OrganizationId, ProjectId
from control.consumption.counting_model import ConsumerModel

BEGIN = datetime(2026, 1, 30, 20, 15, tzinfo=UTC)
ORGANIZATION = OrganizationId("org-one")
PROJECT = ProjectId("quiet-sea-1")
TERM = ProjectTerm(project_id=PROJECT, since=BEGIN, org_id=ORGANIZATION, plan="free", is_first=True)
METRICS = (*PROJECT_METRICS, *PROJECT_METRICS_V2)
EVALUATOR = Evaluator(METRICS)

gaps = st.one_of(
    st.integers(0, 300),
    st.integers(0, 5 * 86_400),
    st.sampled_from([2700, 3600, 7200, 86_400]),  # from BEGIN, these end exactly with an hour or a day
).map(lambda seconds: timedelta(seconds=seconds))
numbers = st.integers(0, 10**12)
amounts = st.builds(Amounts, **dict.fromkeys(AMOUNT_NAMES, numbers))
flows = st.builds(Flows, **dict.fromkeys(FLOW_NAMES, numbers))
events = st.lists(st.tuples(gaps, flows, st.none() | amounts), min_size=1, max_size=20)


def to_stored(bucket: Bucket) -> StoredBucket:
    """Return the bucket as a row with the columns of all metrics."""
    row: dict[str, Any] = {name: getattr(bucket.flows, name) for name in FLOW_NAMES}
    row |= {name: getattr(bucket.amounts, name) for name in AMOUNT_NAMES}
    row |= {f"{name}_hours": value for name, value in zip(AMOUNT_NAMES, bucket.amount_hours, strict=True)}
    for name, peak in zip(PEAK_NAMES, bucket.peaks, strict=True):
        row |= {f"{name}_highest": peak.highest, f"{name}_past_hours": peak.past_hours}
        row[f"{name}_last_hour"] = peak.last_hour
    return (to_microseconds(bucket.start), to_microseconds(bucket.until), *(row[name] for name in EVALUATOR.columns))


def build_periods(
    lifetime: Lifetime, terms: Sequence[ProjectTerm], stored: dict[datetime, Sequence[StoredBucket]], span: BucketSpan
) -> list[Period]:
    return PeriodBuilder(span, EVALUATOR).build(
        lifetime, terms, {to_microseconds(since): buckets for since, buckets in stored.items()}
    )


def play(steps: Sequence[tuple[timedelta, Flows, Amounts | None]], granularity: Granularity) -> tuple[Any, ...]:
    """Return the stored rows, the model, and the time of the last event."""
    model, at, held = ConsumerModel(), BEGIN, Amounts()
    model.store(BEGIN, held)
    buckets = {granularity.start_of(BEGIN): Bucket.begin(granularity.start_of(BEGIN), BEGIN, held)}
    newest = next(iter(buckets.values()))
    for gap, used, changed in steps:
        at += gap
        held = held if changed is None else changed
        buckets |= {each.start: each for each in record(newest, granularity, at, used, held)}
        newest = buckets[granularity.start_of(at)]
        model.use(at, used)
        model.store(at, held)
    return [to_stored(each) for each in buckets.values()], model, at


def read(rows: Sequence[StoredBucket], granularity: Granularity, now: datetime, **lifetime: Any) -> list[Period]:
    span = BucketSpan(granularity=granularity, start=granularity.start_of(BEGIN), end=now, now=now)
    created = Lifetime(**{"created_at": BEGIN, "deleted_at": None, **lifetime})
    return build_periods(created, [TERM], {BEGIN: rows}, span)


def values_of(periods: Sequence[Period], name: str) -> list[float]:
    place = [metric.name for metric in METRICS].index(name)
    return [bucket.values[place] for period in periods for bucket in period.buckets]


@given(steps=events, after=gaps, granularity=st.sampled_from(Granularity))
def test_every_bucket_has_what_the_model_has(steps: Any, after: timedelta, granularity: Granularity) -> None:
    rows, model, at = play(steps, granularity)
    now = at + after + timedelta(seconds=1)
    periods = read(rows, granularity, now)
    buckets = [bucket for period in periods for bucket in period.buckets]
    assert [bucket.start for bucket in buckets[1:]] == [bucket.end for bucket in buckets[:-1]]
    assert buckets[0].start <= BEGIN < now <= buckets[-1].end
    for bucket, written, hours, peaks, transferred in zip(
        buckets,
        values_of(periods, "written_data_bytes"),
        values_of(periods, "root_branch_bytes_month"),
        values_of(periods, "data_storage_bytes_hour"),
        values_of(periods, "private_network_transfer_bytes"),
        strict=True,
    ):
        end = min(bucket.end, now)
        assert written == model.sum_flows("written_bytes", bucket.start, end)
        both = model.sum_flows("private_in", bucket.start, end) + model.sum_flows("private_out", bucket.start, end)
        assert transferred == both
        assert hours * HOURS_PER_MONTH == pytest.approx(model.amount_hours("root_bytes", bucket.start, end), rel=1e-9)
        assert peaks == pytest.approx(model.peak_hours("stored_bytes", bucket.start, end))


@given(steps=events, after=gaps)
def test_hours_days_and_months_agree(steps: Any, after: timedelta) -> None:
    sums = {}
    for granularity in Granularity:
        rows, _, at = play(steps, granularity)
        periods = read(rows, granularity, at + after + timedelta(seconds=1))
        highest = {"synthetic_storage_size_bytes", "logical_size_bytes"}
        sums[granularity] = {
            metric.name: (max if metric.name in highest else sum)(values_of(periods, metric.name)) for metric in METRICS
        }
    assert sums[Granularity.HOURLY] == pytest.approx(sums[Granularity.DAILY], rel=1e-9, abs=1e-3)
    assert sums[Granularity.DAILY] == pytest.approx(sums[Granularity.MONTHLY], rel=1e-9, abs=1e-3)


def test_a_clock_that_was_set_back_counts_no_time_twice() -> None:
    first = Bucket.begin(Granularity.DAILY.start_of(BEGIN), BEGIN, Amounts(root_bytes=10))
    (later,) = record(first, Granularity.DAILY, BEGIN + timedelta(hours=2), Flows(), Amounts(root_bytes=10))
    (back,) = record(later, Granularity.DAILY, BEGIN + timedelta(hours=1), Flows(bytes_out=3), Amounts(root_bytes=20))
    assert (back.until, back.amount_hours[0], back.flows.bytes_out) == (later.until, 20.0, 3)


def test_a_month_with_a_leap_day_has_29_days() -> None:
    granularity = Granularity.DAILY
    span = BucketSpan(
        granularity=granularity,
        start=datetime(2028, 2, 1, tzinfo=UTC),
        end=datetime(2028, 3, 1, tzinfo=UTC),
        now=datetime(2028, 3, 5, tzinfo=UTC),
    )
    lifetime = Lifetime(created_at=BEGIN, deleted_at=None)
    (period,) = build_periods(lifetime, [TERM], {}, span)
    assert (len(period.buckets), period.end) == (29, datetime(2028, 3, 1, tzinfo=UTC))


def test_a_deleted_project_has_buckets_until_its_deletion() -> None:
    now = BEGIN + timedelta(days=3)
    periods = read([], Granularity.DAILY, now, deleted_at=BEGIN + timedelta(days=1))
    assert [bucket.start.day for period in periods for bucket in period.buckets] == [30, 31]
    assert read([], Granularity.DAILY, now, created_at=now) == []


def test_periods_are_cut_where_the_plan_or_the_organization_changes() -> None:
    bought, left, now = BEGIN + timedelta(hours=3), BEGIN + timedelta(days=4), BEGIN + timedelta(days=6)
    free = ProjectTerm(
        project_id=PROJECT, since=BEGIN, org_id=ORGANIZATION, plan="free", ended_at=bought, is_first=True
    )
    paid = ProjectTerm(project_id=PROJECT, since=bought, org_id=ORGANIZATION, plan="unlimited", ended_at=left)
    span = BucketSpan(granularity=Granularity.DAILY, start=datetime(2026, 1, 1, tzinfo=UTC), end=now, now=now)
    lifetime = Lifetime(created_at=BEGIN, deleted_at=None)
    periods = build_periods(lifetime, [free, paid], {}, span)
    january, february = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    assert [(each.plan, each.start, each.end) for each in periods] == [
        ("free", january, bought),
        ("unlimited", bought, february),
        ("unlimited", february, left),
    ]
    # The bucket in which the plan changed is in both, cut in two.
    assert [[bucket.start.day for bucket in each.buckets] for each in periods] == [[30], [30, 31], [1, 2, 3]]
    assert len({each.id for each in periods}) == 3
    joined = ProjectTerm(project_id=PROJECT, since=left, org_id=ORGANIZATION, plan="unlimited")
    other = build_periods(lifetime, [joined], {}, span)
    total = add_up_periods([periods, other])
    # The organization's month is not cut by a project that comes or goes.
    assert [(each.plan, each.start, each.end) for each in total] == [
        ("free", january, bought),
        ("unlimited", bought, february),
        ("unlimited", february, None),
    ]


def test_sums_over_projects_add_up_bucket_by_bucket() -> None:
    rows, _, _ = play([(timedelta(hours=1), Flows(active_seconds=5.0), Amounts(stored_bytes=7))], Granularity.HOURLY)
    now = BEGIN + timedelta(hours=2)
    one, none = read(rows, Granularity.HOURLY, now), read([], Granularity.HOURLY, now)
    assert values_of(add_up_periods([one, one]), "active_time_seconds") == [0, 10, 0]
    assert values_of(add_up_periods([none, one]), "active_time_seconds") == [0, 5, 0]
    assert values_of(add_up_periods([one, one]), "data_storage_bytes_hour") == [0, 14, 14]


def test_unknown_metrics_are_refused_with_the_list() -> None:
    with pytest.raises(Invalid, match=r"'snapshot_storage_bytes_month' is not known here. Metrics: compute_unit_sec"):
        select_metrics(["compute_unit_seconds", "snapshot_storage_bytes_month"], BRANCH_METRICS_V2)
    chosen = select_metrics(["logical_size_bytes", "active_time_seconds", "logical_size_bytes"], PROJECT_METRICS)
    assert [metric.name for metric in chosen] == ["logical_size_bytes", "active_time_seconds"]
