"""`get-db` at a terminal that is real to it, with someone who waits for questions and types."""

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
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            [js.node, GET_DB / "bin" / "get-db.js", *arguments],
            cwd=cwd,
            env={**js.environment, "INSTANT_BASE_URL": "http://127.0.0.1:9", "TERM": "xterm", **variables},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._output = ""
        self._answered = 0

    @property
    def output(self) -> str:
        return _CONTROL.sub("", self._output)

    def answer(self, question: str, keys: str) -> None:
        """When the question is there, and was not before the last answer."""
        deadline = time.monotonic() + TIMEOUT
        while question not in _CONTROL.sub("", self._output[self._answered :]):
            assert self._read(deadline), f"{question!r} was not asked: {self.output}"
        self._answered = len(self._output)
        os.write(self._ours, keys.encode())

    def check_exit_code(self, code: int) -> bool:
        deadline = time.monotonic() + TIMEOUT
        while self._read(deadline):
            pass
        ended = self._process.wait(TIMEOUT)
        assert ended == code, self.output
        return True

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0, deadline - time.monotonic()))
        try:
            heard = os.read(self._ours, 65536) if ready else b""
        except OSError:  # the other side is gone
            heard = b""
        self._output += heard.decode(errors="replace")
        return bool(heard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)
