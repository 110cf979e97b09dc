"""How the kind of an operation is stored."""

import pytest

from bough.domain.operation import STORED_KINDS, OperationKind, decode_kind, encode_kind


def test_every_kind_has_a_stored_form() -> None:
    assert set(STORED_KINDS) == set(OperationKind)


@pytest.mark.parametrize("kind", OperationKind)
def test_a_kind_is_read_back_from_its_stored_form(kind: OperationKind) -> None:
    parameters = {"change": {"kind": "drop_role", "name": "app"}} if kind is OperationKind.CHANGE_CATALOG else {"a": 1}
    action, stored = encode_kind(kind, parameters)
    assert decode_kind(action, stored) == (kind, parameters)


def test_only_kinds_that_share_an_action_store_a_variant() -> None:
    assert encode_kind(OperationKind.START_COMPUTE, {"resumes": True}) == ("start_compute", {"resumes": True})
    assert encode_kind(OperationKind.RESTORE_BRANCH, {"a": 1}) == ("create_timeline", {"variant": "restore", "a": 1})
