"""The published action names of operations."""

import pytest

from bough.api.v2.operations import PUBLISHED_ACTIONS, OperationView
from bough.domain.operation import OperationKind
from support.stores import make_operation


def test_every_kind_has_a_published_action() -> None:
    assert set(PUBLISHED_ACTIONS) == set(OperationKind)


@pytest.mark.parametrize("kind", OperationKind)
def test_the_published_action_is_the_stored_one_that_metrics_show(kind: OperationKind) -> None:
    operation = make_operation("p", kind=kind)
    assert OperationView.of(operation).action == operation.stored_action
