"""The history of a branch after a restore, and which restores are rejected."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bough.domain import history, restore_rules
from bough.domain.branch import Branch, BranchLineage, Lineage
from bough.domain.history import HEAD, BranchHistory, LineageRange, Point, RecoveryTarget
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId, LineageId, ProjectId, VolumeId
from support.stores import make_branch, make_project

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
FIRST, SECOND, THIRD = VolumeId("vol-first"), VolumeId("vol-second"), VolumeId("vol-third")
BRANCH = BranchId("br-a")


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def lineage(volume: VolumeId, began: float) -> Lineage:
    return Lineage(
        id=LineageId(f"lin-{volume}"),
        project_id=ProjectId("p"),
        volume_id=volume,
        created_at=NOON,
        began_at=at(began),
        began_lsn=f"0/{100 + 10 * int(began)}",
    )


def make_range(volume: VolumeId, began: float, **part: Any) -> LineageRange:
    own = lineage(volume, began)
    return LineageRange(
        branch_lineage=BranchLineage(branch_id=BRANCH, position=0, lineage_id=own.id, **part), lineage=own
    )


def continue_with(
    parts: list[BranchLineage], volume: VolumeId, minute: float, known: list[LineageRange]
) -> list[LineageRange]:
    """The ranges of a branch that continues with another volume."""
    by_id = {each.lineage.id: each.lineage for each in known}
    before = [LineageRange(branch_lineage=part, lineage=by_id[part.lineage_id]) for part in parts]
    return [*before, make_range(volume, minute, from_at=at(minute))]


def resolve(ranges: list[LineageRange], minute: float, now: float = 100) -> RecoveryTarget:
    return BranchHistory(ranges, timedelta(days=1), at(now)).resolve_point(
        Point(at=at(minute)), parameter_name="it", end_lsn=None
    )


def test_after_going_back_twice_every_moment_means_what_the_branch_was_then() -> None:
    """Restored at 12:30 to 12:10, at 12:50 to 12:40, and at 13:10 to a time before the first restore."""
    ranges = [make_range(FIRST, 0)]
    once = continue_with(restore_rules.truncate_lineages(ranges, FIRST, "0/200", at(9)), SECOND, 30, ranges)
    twice = continue_with(restore_rules.truncate_lineages(once, SECOND, "0/300", at(39)), THIRD, 50, once)
    assert resolve(twice, 5) == RecoveryTarget(volume_id=FIRST, point=Point(at=at(5)))
    assert resolve(twice, 20) == RecoveryTarget(volume_id=FIRST, point=Point(lsn="0/200"))
    assert resolve(twice, 35) == RecoveryTarget(volume_id=SECOND, point=Point(at=at(35)))
    assert resolve(twice, 45) == RecoveryTarget(volume_id=SECOND, point=Point(lsn="0/300"))
    assert resolve(twice, 60) == RecoveryTarget(volume_id=THIRD, point=Point(at=at(60)))
    fourth = VolumeId("vol-fourth")
    far = continue_with(restore_rules.truncate_lineages(twice, FIRST, "0/150", at(4)), fourth, 70, twice)
    assert [each.lineage.volume_id for each in far] == [FIRST, fourth]
    assert resolve(far, 3) == RecoveryTarget(volume_id=FIRST, point=Point(at=at(3)))
    assert resolve(far, 60) == RecoveryTarget(volume_id=FIRST, point=Point(lsn="0/150"))
    assert resolve(far, 80) == RecoveryTarget(volume_id=fourth, point=Point(at=at(80)))


def test_a_branch_that_goes_on_with_data_of_another_can_go_back_to_all_that_it_was() -> None:
    ranges = [make_range(FIRST, 0)]
    reset = continue_with(restore_rules.end_last_lineage(ranges, "0/200", at(30)), SECOND, 30, ranges)
    assert resolve(reset, 29) == RecoveryTarget(volume_id=FIRST, point=Point(at=at(29)))
    assert resolve(reset, 30) == RecoveryTarget(volume_id=SECOND, point=Point(at=at(30)))


def test_what_nobody_keeps_any_more_leads_nowhere() -> None:
    assert restore_rules.truncate_lineages([make_range(SECOND, 0)], FIRST, "0/200", at(9)) == []
    assert restore_rules.end_last_lineage([], None, at(9)) == []


def test_a_range_in_which_nothing_was_committed_ends_where_it_began() -> None:
    (branch_lineage,) = restore_rules.truncate_lineages([make_range(FIRST, 5)], FIRST, "0/200", None)
    assert branch_lineage.until_at == at(5)


@pytest.mark.parametrize("point", [HEAD, Point(at=at(3)), Point(lsn="0/200")])
def test_what_an_operation_is_told_is_read_as_it_was_written(point: Point) -> None:
    target = RecoveryTarget(volume_id=FIRST, point=point)
    assert history.decode_target(history.encode_target(target)) == target
    assert history.decode_target({}) is None


def branch(**fields: Any) -> Branch:
    return make_branch(make_project(), **fields)


def check(
    of: Branch, *, to_itself: bool, is_head: bool = False, preserves: bool = True, children: bool = False
) -> None:
    restore_rules.check_restorable(
        of, is_own_history=to_itself, is_head=is_head, has_preserve_name=preserves, has_children=children
    )


@pytest.mark.parametrize("to_itself", [True, False])
def test_a_protected_branch_gets_no_other_data(to_itself: bool) -> None:
    with pytest.raises(RuleViolation, match=r"is protected.*Unprotect it first"):
        check(branch(is_protected=True), to_itself=to_itself)


def test_to_itself_needs_a_point_and_a_name_for_what_is_there() -> None:
    check(branch(), to_itself=True)
    with pytest.raises(Invalid, match="source_lsn or source_timestamp"):
        check(branch(), to_itself=True, is_head=True)
    with pytest.raises(Invalid, match="preserve_under_name"):
        check(branch(), to_itself=True, preserves=False)


def test_children_need_somebody_to_go_to() -> None:
    check(branch(), to_itself=False, is_head=True, preserves=False)
    check(branch(), to_itself=False, children=True)
    with pytest.raises(RuleViolation, match=r"has child branches.*preserve_under_name.*delete them first"):
        check(branch(), to_itself=False, preserves=False, children=True)


def test_a_reset_branch_lives_as_long_again() -> None:
    expiring = branch(expires_at=at(10), ttl_seconds=600)
    assert restore_rules.renew_expiration(expiring, at(5)).expires_at == at(15)
    assert restore_rules.renew_expiration(branch(), at(5)).expires_at is None
