"""WAL positions, as users and as Postgres write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain import lsn
from bough.errors import Invalid

POSITIONS = st.integers(min_value=0, max_value=2**64 - 1)


@given(POSITIONS)
def test_a_position_is_a_number_and_a_text(position: int) -> None:
    text = lsn.to_text(position)
    high, low = (int(half, 16) for half in text.split("/"))
    assert (high << 32) + low == position == lsn.to_int(text)
    assert lsn.parse_lsn(text.lower(), "lsn") == text


@pytest.mark.parametrize("text", ["", "0", "0/0 ", "x/0", "0/0/0", "123456789/0", "0/1\n", "-1/0", "\uff10/0"])
def test_what_is_no_position_is_refused_with_an_example(text: str) -> None:
    assert not lsn.is_lsn(text)
    with pytest.raises(Invalid, match=r"source_lsn is .*0/1A2B3C4D"):
        lsn.parse_lsn(text, "source_lsn")
