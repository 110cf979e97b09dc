"""Rule 3: control and gateway workers have a memory limit; a process that exceeds it is killed and restarted."""

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.config import Settings
from bough.supervisor import memory_limits
from bough.supervisor.memory_limits import MemoryLimit
from bough.supervisor.processes import ChildProcess, ProcessSpec
from support.platform import temporary_folder
from support.program import ONE_WORKER, Program, create_running_project, get_status_code, list_computes

MIB = 1024**2
LIMIT = 256 * MIB
# Large request bodies are allowed, so that one client can make control use much memory.
LIMIT_SETTINGS = {"BOUGH_CONTROL_MEMORY_BYTES": str(LIMIT), "BOUGH_BODY_LIMIT": str(2 * 1024**3)}
# Reports that it is ready, allocates 200 MiB and sleeps.
ALLOCATING_PROGRAM = """
import os, sys, time
os.write(int(sys.argv[sys.argv.index("--ready-fd") + 1]), b'{"ready": true}\\n')
held = b"x" * (200 * 1024**2)
time.sleep(600)
"""
# Prints "refused" if it cannot allocate 4 GiB.
OVERALLOCATING_PROGRAM = """
try:
    held = bytearray(4 * 1024**3)
except MemoryError:
    print("refused")
"""


@pytest.fixture(scope="module")
def bough() -> Iterator[Program]:
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", {**ONE_WORKER, **LIMIT_SETTINGS})
        try:
            program.up()
            create_running_project(program)
            yield program
        finally:
            program.clean_up()


def read_data_limits(pid: int) -> tuple[str, str]:
    """Returns the soft and hard RLIMIT_DATA of a process of any user."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    soft, hard = next(line for line in lines if line.startswith("Max data size")).split()[3:5]
    return soft, hard


def test_control_that_takes_too_much_comes_back_and_computes_live_on(bough: Program) -> None:
    control, before = bough.status()["control_pid"], list_computes(bough.home)
    assert before
    chunk = b"x" * MIB
    with socket.create_connection(("127.0.0.1", int(bough.port_arguments()[1]))) as client:
        head = (
            "POST /api/v2/projects HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            f"{bough.up_output['api_key']}\r\n"
        )
        client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {3 * LIMIT}\r\n\r\n".encode())
        try:
            for _ in range(2 * LIMIT // MIB):
                client.sendall(chunk)
            assert client.recv(1) == b"", "control replied although it should have been killed"
        except (BrokenPipeError, ConnectionResetError):
            pass
    bough.wait_for_restart(control)
    assert list_computes(bough.home) == before
    assert get_status_code(bough.up_output, "/projects") == 200
    log = (bough.home / "logs" / "control.log").read_text()
    assert "control ended by signal SIGKILL: it used" in log
    assert "control_memory_bytes is 256 MB" in log


def test_a_limit_of_ours_is_not_a_limit_of_computes(bough: Program) -> None:
    control = bough.status()["control_pid"]
    soft, hard = read_data_limits(control)
    assert soft == str(2 * LIMIT + 1024**3)
    for compute in list_computes(bough.home):
        assert read_data_limits(compute) == (hard, hard)


def test_workers_have_one_too(bough: Program) -> None:
    expected = memory_limits.limit_for_worker(Settings(home=bough.home, gateway_workers=1)).bytes
    (worker,) = bough.status()["gateway_workers"]
    assert read_data_limits(worker["pid"])[0] == str(2 * expected + 1024**3)


def test_by_default_a_limit_follows_the_machine() -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_limits.limit_for_control(Settings()).bytes == max(1024**3, memory // 4)
    assert memory_limits.limit_for_worker(Settings(gateway_workers=200)).bytes == max(512 * MIB, memory // 800)


async def test_a_process_is_ended_each_time_and_the_sentence_says_why(tmp_path: Path) -> None:
    read_fd, supervisor_fd = os.pipe()
    child = ChildProcess(
        ProcessSpec(
            name="gateway worker 1",
            command=(sys.executable, "-c", ALLOCATING_PROGRAM),
            alive_fd=read_fd,
            log_file=tmp_path / "log",
            memory_limit=MemoryLimit(100 * MIB, "gateway_worker_memory_bytes"),
        )
    )
    reports: asyncio.Queue[str] = asyncio.Queue()
    await child.start()
    task = asyncio.create_task(child.keep_alive(reports.put_nowait))
    for _ in range(2):
        assert "ended by signal SIGKILL: it used 2" in (report := await reports.get())
        assert "gateway_worker_memory_bytes is 100 MB" in report
        assert await reports.get() == "gateway worker 1 runs again"
    task.cancel()
    await asyncio.wait({task})
    await child.stop(signal.SIGKILL, asyncio.Event())
    os.close(read_fd)
    os.close(supervisor_fd)


def test_between_two_looks_allocations_fail() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with MemoryLimit(100 * MIB, "control_memory_bytes").limit_new_processes():
        result = subprocess.run(
            [sys.executable, "-c", OVERALLOCATING_PROGRAM], capture_output=True, text=True, check=True
        )
    assert result.stdout == "refused\n"
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
