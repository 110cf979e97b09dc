"""Rule 3: a program in place of a compute's server cannot exhaust control or send it false data."""

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

BUFFERS = 2 * 1024**2  # bytes that the two ends of a socket may buffer
MAX_SENT_BEFORE_READY = 64 * 1024 + BUFFERS
MAX_SENT_PER_STATEMENT = 16 * 1024**2 + BUFFERS

ROLE_COLUMNS = (
    ("kind", TEXT),
    ("name", BYTES),
    ("can_login", BOOL),
    ("verifier", TEXT),
    ("valid_until", 1184),
    ("owner", BYTES),
    ("total", INT8),
)
LISTING_PARAMETERS = (TEXT_ARRAY, INT8, TEXT_ARRAY, INT8)  # parameter types of the query for roles and databases


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as path:
        yield path / "s"


async def expect_session_error(
    folder: Path, script: Script, method: str = "is_busy"
) -> tuple[FakeConnection, EngineError]:
    """Calls a method of a session that must fail; returns the connection and the error."""
    async with fake_postgres.serve_fake_postgres(folder, script) as connections:
        with pytest.raises(EngineError) as raised:
            async with session.open_session(folder) as opened:
                await getattr(opened, method)()
        return connections[0], raised.value


async def test_an_endless_greeting_is_cut(folder: Path) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.send(authentication(0))
        await connection.send_endlessly(parameter("x" * 1000, "y" * 1000))

    connection, error = await expect_session_error(folder, script)
    assert connection.sent <= MAX_SENT_BEFORE_READY
    assert "Suspend the endpoint" in error.public_message


async def test_a_greeting_that_announces_two_gigabytes_is_cut(folder: Path) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.send(b"S" + struct.pack("!I", 2**31 - 1))
        await connection.send_endlessly(b"x" * 65536)

    connection, _ = await expect_session_error(folder, script)
    assert connection.sent <= MAX_SENT_BEFORE_READY


@pytest.mark.parametrize(
    "auth_request", [authentication(3), authentication(5, b"salt"), authentication(10, b"SCRAM-SHA-256\0\0")]
)
async def test_nobody_works_for_a_server_that_asks_for_a_password(folder: Path, auth_request: bytes) -> None:
    """With SCRAM, the server would choose the number of iterations."""

    async def script(connection: FakeConnection) -> None:
        await connection.send(auth_request)
        await connection.read_message()

    connection, _ = await expect_session_error(folder, script)
    assert connection.received == [], "control replied to the password request"


async def test_endless_rows_are_cut(folder: Path) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send_endlessly(row(b"\1") * 1000)

    connection, _ = await expect_session_error(folder, fake_postgres.make_query_script([("is_busy", BOOL)], rows))
    assert connection.sent <= MAX_SENT_PER_STATEMENT


async def test_a_row_of_two_gigabytes_is_cut_at_its_first_bytes(folder: Path) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(b"D" + struct.pack("!I", 2**31 - 1))
        await connection.send_endlessly(b"x" * 65536)

    connection, _ = await expect_session_error(folder, fake_postgres.make_query_script([("is_busy", BOOL)], rows))
    assert connection.sent <= MAX_SENT_BEFORE_READY


async def test_no_list_is_made_as_long_as_an_array_says(folder: Path) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(row(struct.pack("!iiIii", 1, 0, TEXT, 2**31 - 1, 1)))

    connection, _ = await expect_session_error(folder, fake_postgres.make_query_script([("is_busy", TEXT_ARRAY)], rows))
    assert b"E" not in connection.received, "control asked for rows"


async def test_notices_count_too(folder: Path) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send_endlessly(message(b"N", b"M" + b"x" * 8000 + b"\0\0"))

    connection, _ = await expect_session_error(folder, fake_postgres.make_query_script([("is_busy", BOOL)], rows))
    assert connection.sent <= MAX_SENT_PER_STATEMENT


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
@pytest.mark.parametrize("method", ["read_logical_bytes", "measure_storage"])
async def test_a_size_is_a_number(folder: Path, method: str, kind: int, value: bytes | None) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(row(value))

    await expect_session_error(folder, fake_postgres.make_query_script([("size", kind)], rows), method)


@pytest.mark.parametrize("count", [0, 2])
async def test_one_answer_is_one_row(folder: Path, count: int) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(row(struct.pack("!q", 1)) * count)

    await expect_session_error(folder, fake_postgres.make_query_script([("size", INT8)], rows), "read_logical_bytes")


@pytest.mark.parametrize(
    "method",
    ["write_wal_marker", "read_wal_end", "read_last_replay_timestamp", "read_server_status", "read_contents", "reload"],
)
async def test_what_has_another_shape_is_an_error_in_words(folder: Path, method: str) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(row(b"../../etc/passwd", b"x"))

    await expect_session_error(folder, fake_postgres.make_query_script([("a", TEXT), ("b", TEXT)], rows), method)


@pytest.mark.parametrize("total", [0, 1, -1])
async def test_nobody_tells_more_roles_than_were_asked_for(folder: Path, total: int) -> None:
    async def rows(connection: FakeConnection) -> None:
        for number in range(MAX_LISTED + 1):
            await connection.send(row(b"role", b"r%d" % number, b"\1", None, None, None, struct.pack("!q", total)))

    await expect_session_error(
        folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING_PARAMETERS), "read_contents"
    )


async def test_a_name_is_no_longer_than_postgres_makes_it(folder: Path) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(row(b"role", b"x" * 64, b"\1", None, None, None, struct.pack("!q", 1)))

    await expect_session_error(
        folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING_PARAMETERS), "read_contents"
    )


@pytest.mark.parametrize("verifier", [b"SCRAM-SHA-256$4096:x", b"SCRAM-SHA-256$\0", b"md5", b"plain"])
async def test_a_verifier_that_is_none_opens_nothing(folder: Path, verifier: bytes) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(row(b"role", b"someone", b"\1", verifier, None, None, struct.pack("!q", 1)))

    async def read_verifier(opened: ComputeSession) -> str | None:
        [role] = (await opened.read_contents()).roles
        return role.verifier

    async with (
        fake_postgres.serve_fake_postgres(
            folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING_PARAMETERS)
        ),
        session.open_session(folder) as opened,
    ):
        verifier_read = await read_verifier(opened)
        assert verifier_read is None or not scram.is_usable(verifier_read), (
            "an unusable verifier may be kept only to report the reason to the client"
        )


async def test_a_verifier_is_no_longer_than_our_question_cuts_it(folder: Path) -> None:
    async def rows(connection: FakeConnection) -> None:
        await connection.send(
            row(b"role", b"someone", b"\1", b"SCRAM-SHA-256$" + b"9" * 900, None, None, struct.pack("!q", 1))
        )

    await expect_session_error(
        folder, fake_postgres.make_query_script(ROLE_COLUMNS, rows, LISTING_PARAMETERS), "read_contents"
    )
