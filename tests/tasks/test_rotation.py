"""Logs are rotated in place, while writers keep their descriptor."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough import log_rotation
from support.platform import temporary_folder
from support.requirements import require_root

MAX_BYTES = 100_000

WRITER_PROGRAM = """
import os, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for number in range(200_000):
    os.write(log, b"line %d\\n" % number)
    if number % 100 == 0:
        time.sleep(0.0001)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "ep-quiet-sea-1.log"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A separate file system of 512 kB."""
    require_root()
    with temporary_folder() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)


def read_all(log: Path) -> bytes:
    """Return everything that is kept, oldest first."""
    return b"".join(reversed(list(log_rotation.read_backwards([log, *log_rotation.list_rotated(log)]))))


def list_suffixes(log: Path) -> list[str]:
    return sorted(path.name.removeprefix(log.name) for path in log.parent.iterdir())


def test_a_short_log_and_one_that_is_not_there_are_left_alone(log: Path) -> None:
    assert not log_rotation.rotate(log, MAX_BYTES, 4)
    log.write_bytes(b"x" * MAX_BYTES)
    assert not log_rotation.rotate(log, MAX_BYTES, 4)
    assert list_suffixes(log) == [""]


def test_the_writer_goes_on_in_the_same_file(log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * MAX_BYTES + b" before\n")
        assert log_rotation.rotate(log, MAX_BYTES, 4)
        writer.write(b"after\n")
    assert log.read_bytes() == b"after\n"
    assert (log.parent / f"{log.name}.1").read_bytes().endswith(b"x before\n")
    assert (log.parent / f"{log.name}.1").stat().st_mode & 0o777 == 0o600


def test_older_pieces_move_on_packed_and_the_last_is_dropped(log: Path) -> None:
    for word in (b"one", b"two", b"three", b"four", b"five"):
        log.write_bytes(word * MAX_BYTES)
        log_rotation.rotate(log, MAX_BYTES * 2, 3)
    log.write_bytes(b"now")
    assert list_suffixes(log) == ["", ".1", ".2.gz", ".3.gz"]
    assert read_all(log) == b"three" * MAX_BYTES + b"four" * MAX_BYTES + b"five" * MAX_BYTES + b"now"
    assert gzip.decompress((log.parent / f"{log.name}.3.gz").read_bytes()) == b"three" * MAX_BYTES


def test_fewer_are_kept_as_soon_as_fewer_are_wished(log: Path) -> None:
    for _ in range(4):
        log.write_bytes(b"x" * (MAX_BYTES + 1))
        log_rotation.rotate(log, MAX_BYTES, 4)
    log.write_bytes(b"x" * (MAX_BYTES + 1))
    log_rotation.rotate(log, MAX_BYTES, 1)
    assert list_suffixes(log) == ["", ".1"]


def test_of_one_that_grew_by_many_lengths_the_end_is_kept(log: Path) -> None:
    text = os.urandom(MAX_BYTES * 9)
    log.write_bytes(text)
    log_rotation.rotate(log, MAX_BYTES, 4)
    assert list_suffixes(log) == ["", ".1"]
    assert read_all(log) == text[-4 * MAX_BYTES :]


def test_a_busy_writer_has_no_line_torn_or_doubled(log: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER_PROGRAM, str(log)]) as writer:
        while writer.poll() is None:
            log_rotation.rotate(log, MAX_BYTES, 100)
    lines = read_all(log).splitlines()
    numbers = [int(line.removeprefix(b"line ")) for line in lines]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 199_999
    assert len(log_rotation.list_rotated(log)) > 1


def test_a_link_is_not_followed(log: Path) -> None:
    other = log.parent / "other"
    other.write_bytes(b"x" * (MAX_BYTES + 1))
    log.symlink_to(other)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        log_rotation.rotate(log, MAX_BYTES, 4)
    assert other.stat().st_size == MAX_BYTES + 1


def test_a_pipe_is_not_waited_for(log: Path) -> None:
    os.mkfifo(log)
    assert not log_rotation.rotate(log, MAX_BYTES, 4)


def test_on_a_full_disk_everything_stays_as_it_was(small_disk: Path) -> None:
    log = small_disk / "full.log"
    log.write_bytes(b"a" * (MAX_BYTES + 1))
    log_rotation.rotate(log, MAX_BYTES, 4)
    log.write_bytes(b"b" * (MAX_BYTES + 1))
    (small_disk / "ballast").write_bytes(b"x" * 200_000)
    with pytest.raises(OSError, match="No space left"):
        while True:
            with log.open("ab") as writer:
                writer.write(os.urandom(20_000))
    before = read_all(log)
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            log_rotation.rotate(log, MAX_BYTES, 4)
    assert read_all(log) == before
    assert not list(small_disk.glob("*.new"))
    (small_disk / "ballast").unlink()
    assert log_rotation.rotate(log, MAX_BYTES, 4)
    assert log.read_bytes() == b""
    assert read_all(log) == before


def test_removing_a_log_removes_its_pieces(log: Path) -> None:
    neighbor = log.parent / "ep-quiet-sea-11.log"
    neighbor.write_text("stays")
    for _ in range(3):
        log.write_bytes(b"x" * (MAX_BYTES + 1))
        log_rotation.rotate(log, MAX_BYTES, 4)
    log_rotation.remove_log(log)
    assert [path.name for path in log.parent.iterdir()] == [neighbor.name]
