"""Streams are split into messages, in whatever chunks they are received."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.gateway.wire.framing import HEADER_LENGTH, Message, MessageDecoder, parse_body_length
from bough.gateway.wire.protocol_error import ProtocolError

LIMIT = 100
kinds = st.integers(0, 255).map(lambda n: bytes([n]))
some = st.lists(st.builds(Message, kinds, st.binary(max_size=LIMIT - 4)), max_size=8)


@given(some, st.binary(max_size=4), st.lists(st.integers(1, 40), min_size=1))
def test_messages_come_out_as_they_went_in(sent: list[Message], tail: bytes, sizes: list[int]) -> None:
    stream = b"".join(message.encode() for message in sent) + tail
    decoder, got, at, turn = MessageDecoder(LIMIT), [], 0, 0
    while at < len(stream):
        chunk = stream[at : at + sizes[turn % len(sizes)]]
        at, turn = at + len(chunk), turn + 1
        decoder.feed(memoryview(chunk))
        while (message := decoder.next_message()) is not None:
            got.append(message)
        assert len(decoder) <= LIMIT + 1 + len(chunk)
    assert got == sent
    assert decoder.take_remainder() == tail
    assert decoder.take_remainder() == b""
    assert len(decoder) == 0


@given(st.lists(st.binary(max_size=60), max_size=60), st.integers(4, 50))
def test_garbage_is_refused_or_cut_and_never_piles_up(chunks: list[bytes], limit: int) -> None:
    decoder = MessageDecoder(limit)
    for chunk in chunks:
        decoder.feed(chunk)
        try:
            while (message := decoder.next_message()) is not None:
                assert len(message.body) <= limit - 4
        except ProtocolError:
            return
        assert len(decoder) <= limit + len(chunk)


@pytest.mark.parametrize("length", [0, 3, LIMIT + 1, 2**31, 2**32 - 1])
def test_an_impossible_length_is_refused_at_once(length: int) -> None:
    decoder = MessageDecoder(LIMIT)
    decoder.feed(b"Q" + length.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"{length} bytes"):
        decoder.next_message()


def test_the_limit_itself_is_fine() -> None:
    decoder = MessageDecoder(LIMIT)
    decoder.feed(Message(b"Q", bytes(LIMIT - 4)).encode())
    assert decoder.next_message() == Message(b"Q", bytes(LIMIT - 4))


def test_the_head_tells_how_much_follows() -> None:
    whole = Message(b"p", b"secret\0").encode()
    assert HEADER_LENGTH + parse_body_length(whole[:HEADER_LENGTH], LIMIT) == len(whole)
