"""The steps of planned maintenance: planned with a notice, done in its window only, postponed or forced."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from bough.domain import maintenance
from bough.domain.maintenance import Maintenance, Step, next_step
from bough.domain.maintenance_window import RestartWindow
from bough.ids import ProjectId

PROJECT = ProjectId("quiet-sea-12345678")
NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)  # a Thursday
SUNDAY = RestartWindow.parse([7], "03:00", "05:00")
NOTICE = timedelta(hours=24)
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))
WINDOWS = st.builds(
    lambda days, start: RestartWindow(weekdays=tuple(sorted(days)), start_minute=start, end_minute=start + 60),
    st.sets(st.integers(1, 7), min_size=1),
    st.integers(0, 1380),
)
NOTICES = st.timedeltas(timedelta(0), timedelta(days=3))


def plan() -> Maintenance:
    return maintenance.plan_first(PROJECT, SUNDAY, NOW, NOTICE)


def test_it_is_planned_for_the_first_window_after_the_notice() -> None:
    assert plan().scheduled_for == datetime(2026, 11, 22, 3, tzinfo=UTC)
    assert plan().ends_at == datetime(2026, 11, 22, 5, tzinfo=UTC)
    later = maintenance.plan_first(PROJECT, SUNDAY, datetime(2026, 11, 21, 3, 1, tzinfo=UTC), NOTICE)
    assert later.scheduled_for == datetime(2026, 11, 29, 3, tzinfo=UTC), "the notice would be too short"


def test_the_steps_of_a_plan() -> None:
    planned = plan()
    assert planned.scheduled_for is not None
    assert planned.ends_at is not None
    before, inside, after = (
        planned.scheduled_for - timedelta(seconds=1),
        planned.scheduled_for,
        planned.ends_at,
    )

    def step(row: Maintenance | None, now: datetime, *, needed: bool, settled: bool = True) -> Step:
        return next_step(row, now, is_needed=needed, is_settled=settled)

    assert step(None, NOW, needed=True) is Step.PLAN
    assert step(None, NOW, needed=False) is Step.WAIT
    assert step(maintenance.finish(planned, {}), NOW, needed=True) is Step.PLAN
    assert step(planned, before, needed=True) is Step.WAIT
    assert step(planned, before, needed=False) is Step.WAIT, "the notice stays until its time"
    assert step(planned, inside, needed=False) is Step.FINISH
    assert step(planned, inside, needed=True) is Step.RESTART
    assert step(planned, inside, needed=False, settled=False) is Step.RESTART, "a restart is under way"
    assert step(planned, after, needed=True, settled=False) is Step.WAIT
    assert step(planned, after, needed=True) is Step.POSTPONE
    assert step(planned, after, needed=False) is Step.FINISH


def test_missed_windows_lead_to_the_next_one_or_to_the_next_hour() -> None:
    missed_at = datetime(2026, 11, 22, 5, 20, tzinfo=UTC)
    first = maintenance.postpone(plan(), SUNDAY, missed_at, is_forced=True)
    assert (first.scheduled_for, first.missed_windows) == (datetime(2026, 11, 29, 3, tzinfo=UTC), 1)
    missed_again = missed_at + timedelta(days=7)
    second = maintenance.postpone(first, SUNDAY, missed_again, is_forced=False)
    assert second.scheduled_for == datetime(2026, 12, 6, 3, tzinfo=UTC)
    forced = maintenance.postpone(first, SUNDAY, missed_again, is_forced=True)
    assert (forced.scheduled_for, forced.ends_at) == (
        datetime(2026, 11, 29, 6, tzinfo=UTC),
        datetime(2026, 11, 29, 7, tzinfo=UTC),
    )
    assert maintenance.finish(forced, {"restarted": []}).missed_windows == 0


def test_only_the_end_of_a_window_interrupts_transactions() -> None:
    assert not maintenance.may_interrupt(plan(), datetime(2026, 11, 22, 4, 49, 59, tzinfo=UTC))
    assert maintenance.may_interrupt(plan(), datetime(2026, 11, 22, 4, 50, tzinfo=UTC))


def test_another_window_moves_the_plan() -> None:
    saturday = RestartWindow.parse([6], "01:00", "02:00")
    moved = maintenance.move(plan(), saturday, NOW, NOTICE)
    assert moved.scheduled_for == datetime(2026, 11, 21, 1, tzinfo=UTC)
    assert moved.noticed_at == NOW
    inside = datetime(2026, 11, 22, 3, 30, tzinfo=UTC)
    assert maintenance.move(plan(), saturday, inside, NOTICE).scheduled_for == datetime(2026, 11, 28, 1, tzinfo=UTC)
    longer = maintenance.move(plan(), RestartWindow.parse([7], "02:00", "00:00"), inside, NOTICE)
    assert (longer.scheduled_for, longer.ends_at) == (plan().scheduled_for, datetime(2026, 11, 23, tzinfo=UTC))


@given(WINDOWS, MOMENTS, NOTICES)
def test_a_plan_keeps_its_notice_and_is_in_the_window(window: RestartWindow, now: datetime, notice: timedelta) -> None:
    planned = maintenance.plan_first(PROJECT, window, now, notice)
    assert planned.scheduled_for is not None
    assert planned.scheduled_for >= now + notice
    assert window.contains(planned.scheduled_for)


@given(WINDOWS, WINDOWS, MOMENTS, NOTICES, st.timedeltas(timedelta(0), timedelta(days=20)))
def test_a_moved_plan_is_in_the_new_window_and_keeps_the_notice(
    before: RestartWindow, after: RestartWindow, noticed: datetime, notice: timedelta, passed: timedelta
) -> None:
    planned, now = maintenance.plan_first(PROJECT, before, noticed, notice), noticed + passed
    moved = maintenance.move(planned, after, now, notice)
    assert moved.scheduled_for is not None
    assert moved.ends_at is not None
    assert moved.scheduled_for >= noticed + notice
    if moved.scheduled_for > now:
        assert after.contains(moved.scheduled_for)
    else:
        assert after.contains(now)
        assert not after.contains(moved.ends_at) or moved.ends_at.hour == moved.ends_at.minute == 0


@given(WINDOWS, MOMENTS, st.lists(st.booleans(), min_size=1, max_size=5))
def test_whatever_is_missed_no_plan_lies_in_the_past(window: RestartWindow, now: datetime, forced: list[bool]) -> None:
    planned = maintenance.plan_first(PROJECT, window, now, NOTICE)
    for is_forced in forced:
        assume(planned.ends_at is not None)
        assert planned.ends_at is not None
        missed_at = planned.ends_at + timedelta(minutes=7)
        planned = maintenance.postpone(replace(planned), window, missed_at, is_forced=is_forced)
        assert planned.scheduled_for is not None
        assert planned.scheduled_for >= missed_at
    assert planned.missed_windows == len(forced)
