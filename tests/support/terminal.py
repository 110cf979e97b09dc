"""Runs `get-db` in a pseudo-terminal, waits for its prompts and types answers."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Self

from support.js_workspace import GET_DB, Workspace

TIMEOUT = 30
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    def __init__(self, js: Workspace, cwd: Path, *arguments: str, **variables: str) -> None:
        self._terminal, child_side = pty.openpty()
        fcntl.ioctl(child_side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            [js.node, GET_DB / "bin" / "get-db.js", *arguments],
            cwd=cwd,
            env={**js.environment, "INSTANT_BASE_URL": "http://127.0.0.1:9", "TERM": "xterm", **variables},
            stdin=child_side,
            stdout=child_side,
            stderr=child_side,
            start_new_session=True,
        )
        os.close(child_side)
        self._output = ""
        self._answered = 0

    @property
    def output(self) -> str:
        return _CONTROL.sub("", self._output)

    def answer(self, question: str, keys: str) -> None:
        """Type the keys as soon as the question appears after the previous answer."""
        deadline = time.monotonic() + TIMEOUT
        while question not in _CONTROL.sub("", self._output[self._answered :]):
            assert self._read(deadline), f"{question!r} was not asked: {self.output}"
        self._answered = len(self._output)
        os.write(self._terminal, keys.encode())

    def check_exit_code(self, code: int) -> bool:
        deadline = time.monotonic() + TIMEOUT
        while self._read(deadline):
            pass
        exit_code = self._process.wait(TIMEOUT)
        assert exit_code == code, self.output
        return True

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))
        try:
            output = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # the process has ended
            output = b""
        self._output += output.decode(errors="replace")
        return bool(output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._terminal)
