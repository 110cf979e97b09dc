"""Snapshots: source branch, names, expiration."""

from datetime import UTC, timedelta, timezone

import pytest

from bough.domain import snapshot
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId
from support.stores import NOON, make_branch, make_project


def test_only_a_root_branch_has_them() -> None:
    root = make_branch(make_project())
    snapshot.check_is_root(root, "snapshots")
    child = make_branch(make_project(), name="dev", parent_id=BranchId("br-parent"))
    with pytest.raises(RuleViolation, match="Only a root branch can have snapshots, and 'dev' has a parent"):
        snapshot.check_is_root(child, "snapshots")


def test_an_end_is_to_come_and_kept_in_utc() -> None:
    assert snapshot.check_expiry(None, NOON) is None
    requested = (NOON + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=9)))
    checked = snapshot.check_expiry(requested, NOON)
    assert checked == requested
    assert checked is not None
    assert checked.tzinfo is UTC
    with pytest.raises(Invalid, match="is in the past; use a future time"):
        snapshot.check_expiry(NOON, NOON)


def test_names_are_made_free() -> None:
    name = snapshot.default_name("main", NOON.astimezone(timezone(timedelta(hours=2))))
    assert name == "main 2026-01-01T12:00:00Z"
    assert snapshot.make_unique_name(name, ()) == name
    assert snapshot.make_unique_name("a", {"a", "a (2)", "b"}) == "a (3)"
    assert snapshot.make_replaced_name("main", {"main"}) == "main (old)"
    assert snapshot.make_replaced_name("main", {"main (old)", "main (old 2)"}) == "main (old 3)"
