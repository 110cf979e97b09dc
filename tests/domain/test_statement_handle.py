"""Handles of statements: exact to the microsecond, and nothing else is accepted."""

from datetime import UTC, datetime, timedelta

import pytest

from bough.domain.statement_handle import StatementHandle
from bough.errors import Invalid

NOW = datetime(2026, 11, 19, 23, 19, 28, 679415, tzinfo=UTC)
HANDLE = StatementHandle(pid=4711, session_began_at=NOW, began_at=NOW + timedelta(microseconds=1))


def test_a_handle_survives_the_way_to_a_client_and_back() -> None:
    assert StatementHandle.parse(str(HANDLE)) == HANDLE
    assert str(HANDLE).startswith("4711-")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "1-1",
        "1-1-1-1",
        "-1-1-1",
        "1-x-1",
        "1-1-A",
        " 1-1-1",
        "1-1-1\n",
        "2147483648-1-1",
        "1-1-" + "f" * 15,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="handle"):
        StatementHandle.parse(text)


def test_every_time_that_is_accepted_can_be_represented() -> None:
    assert StatementHandle.parse("1-1-" + "f" * 14).began_at.year == 4283
