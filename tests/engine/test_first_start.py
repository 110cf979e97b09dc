"""A branch of a running parent recovers at its first start. An interrupted recovery starts from the beginning."""

import os
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.port import EngineError, Readiness
from bough.postgres.backup import LABEL_FILE, OLD_LABEL_FILE
from bough.postgres.wal import SEGMENT_MB
from support.engine_home import DRIVER_PARAMS, Compute, EngineHome, home_on_driver

CHECKPOINT_RECORD = 120  # bytes, in Postgres 17
SHUT_DOWN_IN_RECOVERY, IN_CRASH_RECOVERY = 2, 4  # in the control file


@pytest.fixture(scope="module", params=DRIVER_PARAMS)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param) as made:
        yield made


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


@pytest.fixture
async def child(home: EngineHome) -> Compute:
    parent = await home.create_compute()
    async with parent.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    return await home.create_child(parent)


async def interrupt_recovery(compute: Compute) -> None:
    """The server renames the label and does not find the end of the backup. Then the WAL is restored."""
    segment, behind = find_end_of_checkpoint(compute.data_folder)
    whole = segment.read_bytes()
    with segment.open("r+b") as file:
        file.seek(behind)
        file.write(bytes(len(whole) - behind))
    with pytest.raises(EngineError, match="WAL ends before end of online backup"):
        await compute.start()
    segment.write_bytes(whole)
    assert not (compute.data_folder / LABEL_FILE).exists()


def find_end_of_checkpoint(data: Path) -> tuple[Path, int]:
    """Return the first segment of the label, and the offset in it after the checkpoint record."""
    lines = dict(line.split(": ", 1) for line in (data / LABEL_FILE).read_text().splitlines())
    segment = lines["START WAL LOCATION"].split("file ")[1].rstrip(")")
    place = int(lines["CHECKPOINT LOCATION"].split("/")[1], 16) % (SEGMENT_MB << 20)
    return data / "pg_wal" / segment, place + CHECKPOINT_RECORD


async def test_a_first_start_that_was_cut_off_is_made_again(child: Compute) -> None:
    await interrupt_recovery(child)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select count(*) from kept") == 1000
    await child.kill()
    assert await child.start() is Readiness.READY, "from then on it recovers as usual"
    assert (child.data_folder / OLD_LABEL_FILE).exists()


async def test_one_that_was_stopped_in_the_middle_begins_anew_too(home: EngineHome, child: Compute) -> None:
    """A server that shuts down writes this state, and the label is missing at its next start."""
    await interrupt_recovery(child)
    for state in (SHUT_DOWN_IN_RECOVERY, IN_CRASH_RECOVERY):
        write_state(child.data_folder, state)
        grandchild = await home.create_child(child)
        assert await grandchild.start() is Readiness.READY
        assert await grandchild.fetch_value("select count(*) from kept") == 1000
        (child.data_folder / LABEL_FILE).rename(child.data_folder / OLD_LABEL_FILE)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select count(*) from kept") == 1000


def write_state(data: Path, state: int) -> None:
    """Write the state to the control file, and its checksum after the last field."""
    file = data / "global" / "pg_control"
    content = bytearray(file.read_bytes())
    end = next(at for at in range(200, 400, 4) if crc(content[:at]) == struct.unpack_from("<I", content, at)[0])
    struct.pack_into("<I", content, 16, state)
    struct.pack_into("<I", content, end, crc(content[:end]))
    file.write_bytes(content)


def crc(content: bytes | bytearray) -> int:
    """CRC-32C."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


async def test_a_branch_of_one_that_was_cut_off_is_whole(home: EngineHome, child: Compute) -> None:
    await interrupt_recovery(child)
    grandchild = await home.create_child(child)
    assert await grandchild.start() is Readiness.READY
    assert await grandchild.fetch_value("select count(*) from kept") == 1000


async def test_a_branch_of_one_that_never_started_recovers_as_that_would(home: EngineHome, child: Compute) -> None:
    grandchild = await home.create_child(child)
    assert (grandchild.data_folder / LABEL_FILE).read_text() == (child.data_folder / LABEL_FILE).read_text()
    assert (grandchild.data_folder / LABEL_FILE).stat().st_uid == grandchild.data_folder.stat().st_uid
    assert await grandchild.start() is Readiness.READY


async def test_a_label_that_is_none_is_told(home: EngineHome, child: Compute) -> None:
    os.truncate(child.data_folder / LABEL_FILE, 10)
    with pytest.raises(EngineError, match="backup label cannot be parsed") as refused:
        await home.create_child(child)
    assert not refused.value.transient
