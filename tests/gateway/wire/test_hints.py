"""The hint for clients that cannot write is added to the error of Postgres, and to nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.gateway.wire import hints, messages
from bough.gateway.wire.framing import Message
from bough.gateway.wire.messages import ErrorResponse

HINT = b"Claim it to have more: https://bough.example/claim/1"
READ_ONLY = ErrorResponse(
    sqlstate="25006", message="cannot execute INSERT in a read-only transaction", severity="ERROR", routine="Prevent"
)
ERROR = READ_ONLY.encode()
READY = b"Z\0\0\0\x05I"
KINDS = b"123ACDGHINRSTVWZcdnstv"
others = st.builds(lambda kind, body: Message(bytes([kind]), body).encode(), st.sampled_from(KINDS), st.binary())


@given(st.lists(st.one_of(others, st.just(ERROR)), max_size=8))
def test_each_such_error_in_a_piece_of_whole_messages_gets_it(parts: list[bytes]) -> None:
    hinted = hints.add_hints(b"".join(parts), HINT)
    if ERROR not in parts:
        assert hinted is None
        return
    assert hinted is not None
    with_hint = hints.add_hint(ERROR, HINT)
    assert with_hint is not None
    assert hinted == b"".join(with_hint if each == ERROR else each for each in parts)
    assert messages.parse_error_response(with_hint[5:]).hint == HINT.decode()
    assert messages.parse_error_response(with_hint[5:]).message == READ_ONLY.message


@given(st.lists(others, min_size=1, max_size=4), st.data())
def test_what_is_cut_anywhere_stays_as_it_is(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts) + ERROR + READY
    cut = data.draw(st.integers(1, len(whole) - 1))
    for chunk in (whole[:cut], whole[cut:]):
        hinted = hints.add_hints(chunk, HINT)
        assert hinted is None or (ERROR in chunk and len(hinted) == len(chunk) + len(HINT) + 2)


@given(st.binary())
def test_noise_stays_as_it_is(noise: bytes) -> None:
    assert hints.add_hints(noise, HINT) is None
    assert hints.add_hints(noise + ERROR[:-1], HINT) is None


@pytest.mark.parametrize(
    "other",
    [
        ErrorResponse(sqlstate="42501", message="permission denied", severity="ERROR").encode(),
        ErrorResponse(sqlstate="25006", message="it has one", hint="its own", severity="ERROR").encode(),
        ErrorResponse(sqlstate="25006", message="the session ends", severity="FATAL").encode(),
        ErrorResponse(sqlstate="P0001", message="C25006", severity="ERROR").encode(),
        Message(b"E", b"VERROR\0C25006\0").encode(),  # not terminated
        Message(b"E", b"VERROR\0\0C25006\0\0").encode(),  # terminated in the middle
        Message(b"N", ERROR[5:]).encode(),
        Message(b"D", ERROR).encode(),
    ],
)
def test_other_messages_stay_as_they_are(other: bytes) -> None:
    assert hints.add_hints(other + READY, HINT) is None


def test_most_pieces_are_not_looked_at() -> None:
    assert hints.may_have_read_only_error(bytearray(ERROR + READY), len(ERROR))
    assert not hints.may_have_read_only_error(bytearray(READY + ERROR), len(READY))
