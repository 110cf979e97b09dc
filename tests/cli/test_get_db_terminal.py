"""`bough get-db` at a terminal: what a person is asked, and what their answers do."""

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

PATIENCE = 60.0
NOWHERE = "http://127.0.0.1:9"
OLD = b"# mine\nDATABASE_URL=old\nA=1"


@dataclass
class Terminal:
    descriptor: int
    process: subprocess.Popen[bytes]
    seen: str = ""

    def answer(self, question: str, typed: str) -> None:
        """Type when the question is there, and forget what was on the screen until then."""
        while question not in self.seen:
            assert self._read(), f"it ended, and {question!r} is not in {self.seen!r}"
        self.seen = self.seen.partition(question)[2]
        os.write(self.descriptor, typed.encode())

    def end(self) -> tuple[int, str]:
        """The exit status, and what was on the screen since the last answer."""
        while self._read():
            pass
        return self.process.wait(PATIENCE), self.seen.replace("\r\n", "\n")

    def _read(self) -> bool:
        ready, _, _ = select.select([self.descriptor], [], [], PATIENCE)
        assert ready, f"nothing more came after {self.seen!r}"
        try:
            text = os.read(self.descriptor, 65536).decode()
        except OSError:  # nobody is at its other end any more
            return False
        self.seen += text
        return text != ""


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "bough.cli.main", "get-db", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=make_environment(),
            start_new_session=True,
        )
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(ours)


def test_a_person_is_asked_for_what_was_not_typed_and_whether_to_replace(shared_bough: Program, tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_bytes(OLD)
    with terminal(tmp_path, "--host", shared_bough.up_output["instant_url"], "--logical-replication") as person:
        person.answer("Environment file [./.env]: ", "\n")
        person.answer("Variable for the connection string [DATABASE_URL]: ", "1x\n")
        person.answer("'1x' cannot name a variable", "")
        person.answer("Variable for the connection string [DATABASE_URL]: ", "\n")
        person.answer("Prefix of public variables [PUBLIC_]: ", "VITE_\n")
        person.answer("SQL file to seed it with (empty for none): ", "\n")
        person.answer("./.env already has DATABASE_URL. Replace? [y/N]: ", "y\n")
        code, screen = person.end()
    assert code == 0, screen
    now = parse_variables(env.read_bytes())
    pooled, claim_url = now["DATABASE_URL"], now["VITE_INSTANT_CLAIM_URL"]
    assert re.fullmatch(
        rb"# mine\n# Expires at: \w+, \d\d \w+ \d{4} [\d:]{8} GMT\n# Claim it at: (http\S+)\nDATABASE_URL=postgresql://\S+\n"
        rb"DATABASE_URL_DIRECT=postgresql://\S+\nVITE_INSTANT_CLAIM_URL=\1\nA=1",
        env.read_bytes(),
    )
    assert claim_url in screen
    assert pooled.partition("@")[0].rpartition(":")[2] not in screen


def test_a_person_who_says_no_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(OLD)
    with terminal(tmp_path, "--host", NOWHERE, "-e", ".env", "-k", "DATABASE_URL", "-p", "", "-s", "x") as person:
        person.answer(".env already has DATABASE_URL. Replace? [y/N]: ", "\n")
        code, screen = person.end()
    assert (code, screen.strip()) == (1, "bough: .env has DATABASE_URL already; nothing was created.")
    assert (tmp_path / ".env").read_bytes() == OLD


def test_a_person_who_leaves_keeps_everything(tmp_path: Path) -> None:
    with terminal(tmp_path, "--host", NOWHERE) as person:
        person.answer("Environment file [./.env]: ", "\x04")
        code, screen = person.end()
    assert (code, screen.strip()) == (1, "Aborted!")
    assert list(tmp_path.iterdir()) == []


def test_yes_skips_prompts_and_takes_the_defaults(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(OLD)
    with terminal(tmp_path, "--host", NOWHERE, "--yes") as person:
        code, screen = person.end()
    assert code == 1
    assert screen.startswith("bough: ./.env has DATABASE_URL already; nothing was created. Remove them, or name others")
    assert (tmp_path / ".env").read_bytes() == OLD
