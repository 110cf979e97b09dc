"""`bough get-db` at a terminal: its prompts and what the answers do."""

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bough.cli.get_db.dotenv import parse_variables
from support.program import Program, make_environment

TIMEOUT = 60.0
UNUSED_URL = "http://127.0.0.1:9"
OLD = b"# mine\nDATABASE_URL=old\nA=1"


@dataclass
class Terminal:
    descriptor: int
    process: subprocess.Popen[bytes]
    screen: str = ""

    def answer(self, question: str, typed: str) -> None:
        """Waits for the question, types the answer and clears the recorded screen up to the question."""
        while question not in self.screen:
            assert self._read(), f"the program exited, and {question!r} is not in {self.screen!r}"
        self.screen = self.screen.partition(question)[2]
        os.write(self.descriptor, typed.encode())

    def end(self) -> tuple[int, str]:
        """Waits for the end; returns the exit status and the screen since the last answer."""
        while self._read():
            pass
        return self.process.wait(TIMEOUT), self.screen.replace("\r\n", "\n")

    def _read(self) -> bool:
        ready, _, _ = select.select([self.descriptor], [], [], TIMEOUT)
        assert ready, f"no output followed {self.screen!r}"
        try:
            text = os.read(self.descriptor, 65536).decode()
        except OSError:  # the other end is closed
            return False
        self.screen += text
        return text != ""


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    descriptor, child_end = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "bough.cli.main", "get-db", *arguments],
            stdin=child_end,
            stdout=child_end,
            stderr=child_end,
            cwd=folder,
            env=make_environment(),
            start_new_session=True,
        )
        os.close(child_end)
        try:
            yield Terminal(descriptor, process)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(descriptor)


def test_a_person_is_asked_for_what_was_not_typed_and_whether_to_replace(shared_bough: Program, tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_bytes(OLD)
    with terminal(tmp_path, "--host", shared_bough.up_output["instant_url"], "--logical-replication") as user:
        user.answer("Environment file [./.env]: ", "\n")
        user.answer("Variable for the connection string [DATABASE_URL]: ", "1x\n")
        user.answer("'1x' is not a variable name", "")
        user.answer("Variable for the connection string [DATABASE_URL]: ", "\n")
        user.answer("Prefix of public variables [PUBLIC_]: ", "VITE_\n")
        user.answer("SQL file to seed the database with (empty for none): ", "\n")
        user.answer("./.env already has DATABASE_URL. Replace? [y/N]: ", "y\n")
        code, screen = user.end()
    assert code == 0, screen
    variables = parse_variables(env.read_bytes())
    pooled, claim_url = variables["DATABASE_URL"], variables["VITE_INSTANT_CLAIM_URL"]
    assert re.fullmatch(
        rb"# mine\n# Expires at: \w+, \d\d \w+ \d{4} [\d:]{8} GMT\n# Claim it at: (http\S+)\nDATABASE_URL=postgresql://\S+\n"
        rb"DATABASE_URL_DIRECT=postgresql://\S+\nVITE_INSTANT_CLAIM_URL=\1\nA=1",
        env.read_bytes(),
    )
    assert claim_url in screen
    assert pooled.partition("@")[0].rpartition(":")[2] not in screen


def test_a_person_who_says_no_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(OLD)
    with terminal(tmp_path, "--host", UNUSED_URL, "-e", ".env", "-k", "DATABASE_URL", "-p", "", "-s", "x") as user:
        user.answer(".env already has DATABASE_URL. Replace? [y/N]: ", "\n")
        code, screen = user.end()
    assert (code, screen.strip()) == (1, "bough: .env already has DATABASE_URL; nothing was created.")
    assert (tmp_path / ".env").read_bytes() == OLD


def test_a_person_who_leaves_keeps_everything(tmp_path: Path) -> None:
    with terminal(tmp_path, "--host", UNUSED_URL) as user:
        user.answer("Environment file [./.env]: ", "\x04")
        code, screen = user.end()
    assert (code, screen.strip()) == (1, "Aborted!")
    assert list(tmp_path.iterdir()) == []


def test_yes_skips_prompts_and_takes_the_defaults(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(OLD)
    with terminal(tmp_path, "--host", UNUSED_URL, "--yes") as user:
        code, screen = user.end()
    assert code == 1
    assert screen.startswith(
        "bough: ./.env already has DATABASE_URL; nothing was created. Remove them, or choose other"
    )
    assert (tmp_path / ".env").read_bytes() == OLD
