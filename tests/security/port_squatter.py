"""A program of another user that tries to bind a port of the platform and records what clients send to it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.program import NOBODY, wait_until

# Tries every address in turn until it binds one or its standard input closes. Prints what clients send.
PROGRAM = r"""
import os, select, socket, sys
user, port, addresses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
tries, held = 0, []
while not held and not select.select([sys.stdin], [], [], 0.001)[0]:
    tries += 1
    for address in addresses:
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind((address, port))
            listener.listen()
        except OSError:
            listener.close()
            continue
        held.append(listener)
        print("holds", address, port, flush=True)
while held:
    ready, _, _ = select.select([sys.stdin, *held], [], [])
    if sys.stdin in ready:
        break
    caller = ready[0].accept()[0]
    caller.settimeout(1)
    try:
        print("heard", caller.recv(65536), flush=True)
    except TimeoutError:
        print("heard nothing", flush=True)
    caller.close()
print("tries", tries, flush=True)
"""


class Squatter:
    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self._process = process
        self._output = output

    @property
    def output(self) -> str:
        return self._output.read_text()

    def has_port(self) -> bool:
        return "holds" in self.output

    def stop(self) -> int:
        """Stops the program and returns the number of its attempts."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        return int(self.output.rpartition("tries ")[2])


@contextmanager
def start_squatter(folder: Path, port: int, *addresses: str) -> Iterator[Squatter]:
    output = folder / f"squatter-{port}"
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", PROGRAM, str(NOBODY), str(port), *addresses],
            stdin=subprocess.PIPE,
            stdout=file,
            text=True,
        )
    squatter = Squatter(process, output)
    try:
        yield squatter
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def wait_until_bound(squatter: Squatter) -> None:
    wait_until(lambda: squatter.has_port() or None)
