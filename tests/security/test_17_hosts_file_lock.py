"""Rule 17: any user can lock the hosts file, and the platform can still change it."""

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough import hosts_file
from support.platform import temporary_folder
from support.program import NOBODY
from support.requirements import require_root

# A program of another user that locks the given file until its standard input closes.
LOCK_PROGRAM = """
import fcntl, os, sys
os.setgroups([])
os.setresgid(*[int(sys.argv[2])] * 3)
os.setresuid(*[int(sys.argv[2])] * 3)
file = open(sys.argv[1], "rb")
fcntl.flock(file, getattr(fcntl, sys.argv[3]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hosts() -> Iterator[Path]:
    with temporary_folder(0o755) as folder:
        path = folder / "hosts"
        path.write_text("127.0.0.1 localhost\n")
        path.chmod(0o644)
        yield path
        hosts_file.lock_file(path).unlink(missing_ok=True)


@pytest.mark.parametrize("lock_type", ["LOCK_SH", "LOCK_EX"])
def test_a_lock_of_another_user_hinders_nobody(hosts: Path, lock_type: str) -> None:
    require_root()
    with subprocess.Popen(
        [sys.executable, "-I", "-c", LOCK_PROGRAM, str(hosts), str(NOBODY), lock_type],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert hosts_file.add_line(hosts, "bough x", "127.0.0.1 ep-one.localhost")
        assert hosts_file.write_lines(hosts, "bough x", ["127.0.0.1 ep-two.localhost"])
        assert "ep-two.localhost" in hosts.read_text()
        with hosts.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the other user still has the lock
        holder.stdin.close()


def test_the_lock_is_a_file_of_ours(hosts: Path) -> None:
    assert hosts_file.add_line(hosts, "bough x", "127.0.0.1 ep-one.localhost")
    lock = hosts_file.lock_file(hosts)
    file_status, folder_status = lock.stat(), lock.parent.stat()
    assert stat.S_IMODE(file_status.st_mode) == 0o600
    assert (file_status.st_uid, folder_status.st_uid) == (os.geteuid(), os.geteuid())
    assert not folder_status.st_mode & 0o022, "another user could create files in the folder"


def test_homes_that_change_it_wait_for_each_other(hosts: Path) -> None:
    with hosts_file.lock_file(hosts).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from pathlib import Path; from bough import hosts_file; "
             "hosts_file.LOCK_TIMEOUT = 600; "
             "hosts_file.add_line(Path(sys.argv[1]), 'bough y', '127.0.0.1 ep-y.localhost')",
             str(hosts)]
        )  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        assert "ep-y" not in hosts.read_text()
    assert process.wait(timeout=60) == 0
    assert "ep-y" in hosts.read_text()
