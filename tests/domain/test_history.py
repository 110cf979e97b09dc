"""Which lineage a branch used at a point, before and after restores."""

from datetime import UTC, datetime, timedelta

import pytest

from bough.domain.branch import BranchLineage, Lineage
from bough.domain.history import HEAD, BranchHistory, LineageRange, Point, RecoveryTarget
from bough.errors import Invalid
from bough.ids import BranchId, LineageId, ProjectId, VolumeId

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST, SECOND = VolumeId("vol-first"), VolumeId("vol-second")


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def make_range(
    volume: VolumeId, position: int = 0, *, began: float | None = 0, began_lsn: str = "0/100", **part: object
) -> LineageRange:
    lineage_id = LineageId(f"lin-{volume}")
    return LineageRange(
        branch_lineage=BranchLineage(branch_id=BranchId("br-a"), position=position, lineage_id=lineage_id, **part),  # type: ignore[arg-type]
        lineage=Lineage(
            id=lineage_id,
            project_id=ProjectId("p"),
            volume_id=volume,
            created_at=NOON,
            began_at=None if began is None else at(began),
            began_lsn=began_lsn,
        ),
    )


def make_history(*ranges: LineageRange, retention: timedelta = DAY, now: float = 60) -> BranchHistory:
    return BranchHistory(ranges, retention, at(now))


# Restored at 12:30 to 12:10, when its WAL was at 0/500 and the last commit was at 12:09.
RESTORED = (
    make_range(FIRST, until_lsn="0/500", until_at=at(9)),
    make_range(SECOND, 1, began=30, began_lsn="0/500", from_at=at(30), from_lsn="0/500"),
)


def resolve(history: BranchHistory, point: Point, end: str | None = "0/900") -> RecoveryTarget:
    return history.resolve_point(point, parameter_name="it", end_lsn=end)


@pytest.mark.parametrize(
    ("minute", "volume", "point"),
    [
        (5, FIRST, Point(at=at(5))),
        (9, FIRST, Point(lsn="0/500")),
        (10, FIRST, Point(lsn="0/500")),
        (20, FIRST, Point(lsn="0/500")),  # discarded by the restore: the last commit before it
        (30, SECOND, Point(at=at(30))),
        (60, SECOND, Point(at=at(60))),
    ],
)
def test_a_moment_means_what_the_branch_was_then(minute: float, volume: VolumeId, point: Point) -> None:
    assert resolve(make_history(*RESTORED), Point(at=at(minute))) == RecoveryTarget(volume_id=volume, point=point)


@pytest.mark.parametrize(("lsn", "volume"), [("0/100", FIRST), ("0/4FF", FIRST), ("0/500", SECOND), ("0/900", SECOND)])
def test_a_position_means_the_newest_lineage_that_has_it(lsn: str, volume: VolumeId) -> None:
    assert resolve(make_history(*RESTORED), Point(lsn=lsn)) == RecoveryTarget(volume_id=volume, point=Point(lsn=lsn))


def test_nothing_named_means_now() -> None:
    assert resolve(make_history(*RESTORED), HEAD) == RecoveryTarget(volume_id=SECOND, point=HEAD)


def test_a_lineage_that_ended_whole_is_gone_back_to_at_its_end() -> None:
    reset = make_history(make_range(FIRST, until_at=at(20)), make_range(SECOND, 1, began=30, from_at=at(30)))
    assert resolve(reset, Point(at=at(25))) == RecoveryTarget(volume_id=FIRST, point=HEAD)


@pytest.mark.parametrize(
    ("point", "window"),
    [
        (Point(at=at(61)), "in the future: .* from 2026-05-01T12:00:00Z to 2026-05-01T13:00:00Z"),
        (Point(at=at(-1)), "before the history .* from 2026-05-01T12:00:00Z to 2026-05-01T13:00:00Z"),
        (Point(lsn="0/FF"), "from 0/100 to 0/900"),
        (Point(lsn="0/901"), "from 0/100 to 0/900"),
    ],
)
def test_a_point_outside_is_refused_with_the_window(point: Point, window: str) -> None:
    with pytest.raises(Invalid, match=window):
        resolve(make_history(*RESTORED), point)


def test_what_is_kept_is_no_longer_than_was_asked_for() -> None:
    short = make_history(*RESTORED, retention=timedelta(minutes=10))
    assert short.earliest_at == at(50)
    with pytest.raises(Invalid, match=r"before the history .* from 2026-05-01T12:50:00Z"):
        resolve(short, Point(at=at(49)))


@pytest.mark.parametrize("point", [Point(at=NOON), Point(lsn="0/500")])
def test_without_a_base_there_is_no_history(point: Point) -> None:
    with pytest.raises(Invalid, match="no history to restore yet"):
        resolve(make_history(make_range(FIRST, began=None)), point)
