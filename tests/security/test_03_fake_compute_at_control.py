"""Row 3: a program that took the place of a compute's server cannot fill control, nor make it work, nor be believed."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.engine.local.computes import session
from bough.engine.local.computes.session import ComputeSession
from bough.engine.port import MAX_LISTED, EngineError
from bough.postgres import scram
from security import fake_postgres
from security.fake_postgres import (
    BOOL,
    BYTES,
    INT8,
    TEXT,
    TEXT_ARRAY,
    FakeConnection,
    Script,
    authentication,
    message,
    parameter,
    row,
)
from support.folders import temporary_folder

BUFFERS = 2 * 1024**2  # bytes that the two ends of a socket may hold between them
FEW = 64 * 1024 + BUFFERS
ONE_STATEMENT = 16 * 1024**2 + BUFFERS

ROLE_COLUMNS = (
    ("kind", TEXT),
    ("name", BYTES),
    ("can_login", BOOL),
    ("verifier", TEXT),
    ("valid_until", 1184),
    ("owner", BYTES),
    ("total", INT8),
)
LISTING = (TEXT_ARRAY, INT8, TEXT_ARRAY, INT8)  # the parameters of the question for roles and databases


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as made:
        yield made / "s"


async def refused(folder: Path, script: Script, ask: str = "is_busy") -> tuple[FakeConnection, EngineError]:
    """What became of a session with it: an error in words, and what went over the wire."""
    async with fake_postgres.serve_fake_postgres(folder, script) as lines:
        with pytest.raises(EngineError) as raised:
            async with session.open_session(folder) as ours:
                await getattr(ours, ask)()
        return lines[0], raised.value


async def test_an_endless_greeting_is_cut(folder: Path) -> None:
    async def script(line: FakeConnection) -> None:
        await line.send(authentication(0))
        await line.send_endlessly(parameter("x" * 1000, "y" * 1000))

    line, error = await refused(folder, script)
    assert line.sent <= FEW
    assert "Suspend it" in error.public_message


async def test_a_greeting_that_announces_two_gigabytes_is_cut(folder: Path) -> None:
    async def script(line: FakeConnection) -> None:
        await line.send(b"S" + struct.pack("!I", 2**31 - 1))
        await line.send_endlessly(b"x" * 65536)

    line, _ = await refused(folder, script)
    assert line.sent <= FEW


@pytest.mark.parametrize(
    "asks", [authentication(3), authentication(5, b"salt"), authentication(10, b"SCRAM-SHA-256\0\0")]
)
async def test_nobody_works_for_a_server_that_asks_for_a_password(folder: Path, asks: bytes) -> None:
    """With SCRAM it would say how often the password is hashed."""

    async def script(line: FakeConnection) -> None:
        await line.send(asks)
        await line.read_message()

    line, _ = await refused(folder, script)
    assert line.received == [], "it was answered"


async def test_endless_rows_are_cut(folder: Path) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send_endlessly(row(b"\1") * 1000)

    line, _ = await refused(folder, fake_postgres.make_query_script([("is_busy", BOOL)], rows))
    assert line.sent <= ONE_STATEMENT


async def test_a_row_of_two_gigabytes_is_cut_at_its_first_bytes(folder: Path) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(b"D" + struct.pack("!I", 2**31 - 1))
        await line.send_endlessly(b"x" * 65536)

    line, _ = await refused(folder, fake_postgres.make_query_script([("is_busy", BOOL)], rows))
    assert line.sent <= FEW


async def test_no_list_is_made_as_long_as_an_array_says(folder: Path) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(row(struct.pack("!iiIii", 1, 0, TEXT, 2**31 - 1, 1)))

    line, _ = await refused(folder, fake_postgres.make_query_script([("is_busy", TEXT_ARRAY)], rows))
    assert b"E" not in line.received, "rows were asked for"


async def test_notices_count_too(folder: Path) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send_endlessly(message(b"N", b"M" + b"x" * 8000 + b"\0\0"))

    line, _ = await refused(folder, fake_postgres.make_query_script([("is_busy", BOOL)], rows))
    assert line.sent <= ONE_STATEMENT


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TEXT, b"9" * 4000),
        (INT8, struct.pack("!q", -1)),
        (BOOL, b"\1"),
        (TEXT, b"\xff\xfe"),
        (INT8, b"1"),
        (INT8, None),
    ],
    ids=["text", "negative", "bool", "not-utf8", "short", "null"],
)
@pytest.mark.parametrize("ask", ["read_logical_bytes", "measure_storage"])
async def test_a_size_is_a_number(folder: Path, ask: str, kind: int, value: bytes | None) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(row(value))

    await refused(folder, fake_postgres.make_query_script([("size", kind)], rows), ask)


@pytest.mark.parametrize("count", [0, 2])
async def test_one_answer_is_one_row(folder: Path, count: int) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(row(struct.pack("!q", 1)) * count)

    await refused(folder, fake_postgres.make_query_script([("size", INT8)], rows), "read_logical_bytes")


@pytest.mark.parametrize(
    "ask",
    ["write_wal_marker", "read_wal_end", "read_last_replay_timestamp", "read_position", "read_contents", "reload"],
)
async def test_what_has_another_shape_is_an_error_in_words(folder: Path, ask: str) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(row(b"../../etc/passwd", b"x"))

    await refused(folder, fake_postgres.make_query_script([("a", TEXT), ("b", TEXT)], rows), ask)


@pytest.mark.parametrize("total", [0, 1, -1])
async def test_nobody_tells_more_roles_than_were_asked_for(folder: Path, total: int) -> None:
    async def rows(line: FakeConnection) -> None:
        for number in range(MAX_LISTED + 1):
            await line.send(row(b"role", b"r%d" % number, b"\1", None, None, None, struct.pack("!q", total)))

    await refused(folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING), "read_contents")


async def test_a_name_is_no_longer_than_postgres_makes_it(folder: Path) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(row(b"role", b"x" * 64, b"\1", None, None, None, struct.pack("!q", 1)))

    await refused(folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING), "read_contents")


@pytest.mark.parametrize("verifier", [b"SCRAM-SHA-256$4096:x", b"SCRAM-SHA-256$\0", b"md5", b"plain"])
async def test_a_verifier_that_is_none_opens_nothing(folder: Path, verifier: bytes) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(row(b"role", b"someone", b"\1", verifier, None, None, struct.pack("!q", 1)))

    async def read(ours: ComputeSession) -> str | None:
        [role] = (await ours.read_contents()).roles
        return role.verifier

    async with (
        fake_postgres.serve_fake_postgres(folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING)),
        session.open_session(folder) as ours,
    ):
        told = await read(ours)
        assert told is None or not scram.is_usable(told), "one that is kept is kept for the client to be told why"


async def test_a_verifier_is_no_longer_than_our_question_cuts_it(folder: Path) -> None:
    async def rows(line: FakeConnection) -> None:
        await line.send(
            row(b"role", b"someone", b"\1", b"SCRAM-SHA-256$" + b"9" * 900, None, None, struct.pack("!q", 1))
        )

    await refused(folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING), "read_contents")
