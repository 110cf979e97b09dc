"""`bough admin`, and the operator's first link: on one platform, as the operator types it."""

import json
import stat
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bough import clock
from bough.cli import startup_message
from bough.config import Settings
from bough.supervisor.ports import Ports
from support.platform import temporary_folder
from support.program import Program, Result


@dataclass(frozen=True)
class Running:
    bough: Program
    said: dict[str, Any]

    def admin(self, *words: str) -> Result:
        return self.bough.run("admin", *words, "--home", str(self.bough.home))

    def fine(self, *words: str) -> str:
        done = self.admin(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def refused(self, *words: str, status: int = 1) -> str:
        done = self.admin(*words)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert "Traceback" not in done.stderr
        return done.stderr

    def lines(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.fine("audit", "--json", *words))["audit"]
        return found


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home")
        try:
            yield Running(program, program.up())
        finally:
            program.clean_up()


def test_a_platform_that_does_not_run_says_what_starts_it(bough: Program) -> None:
    for words in (["user", "list"], ["audit"]):
        done = bough.run("admin", *words, "--home", str(bough.home))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"bough: Bough does not run in {bough.home}; `")
        assert done.stderr.endswith(f" up --home {bough.home}` starts it.\n")


def test_accounts_are_made_listed_and_mended(running: Running) -> None:
    root = running.said["api_url"].removesuffix("/api/v2")
    said = running.fine("user", "create", "Ada@Example.com", "--name", "Ada \x1b[31mLin")
    assert said.startswith("ada@example.com has an account now.\n")
    assert f"\n\n  {root}/reset?token=" in said
    made = json.loads(running.fine("user", "create", "bob@example.com", "--json"))
    assert (made["user"]["name"], made["user"]["can_sign_in"]) == ("bob", False)
    operator, ada, bob = json.loads(running.fine("user", "list", "--json"))["users"]
    assert (ada["email"], bob) == ("ada@example.com", made["user"])
    table = running.fine("user", "list").splitlines()
    assert table[0].split() == ["e-mail", "name", "plan", "since", "can", "sign", "in"]
    assert [row.split()[0] for row in table[1:]] == [operator["email"], "ada@example.com", "bob@example.com"]
    assert "Ada \\x1b[31mLin" in table[2], "a name does not paint the terminal"

    first = running.fine("user", "reset", "ADA@example.com")
    second = json.loads(running.fine("user", "reset", "ada@example.com", "--json"))["link"]
    assert first.startswith("The old password of ada@example.com does not work any more.\n")
    assert second.split("token=")[1] not in first

    assert "already" in running.refused("user", "create", "ada@example.com")
    assert "is not an e-mail address" in running.refused("user", "create", "ada")
    nobody = running.refused("user", "reset", "eve@example.com")
    assert "Nobody has an account with the address 'eve@example.com'" in nobody
    assert "admin user list --home" in nobody


def test_the_audit_is_read_by_whom_what_where_and_when(running: Running) -> None:
    said = running.said
    request = urllib.request.Request(
        f"{said['api_url']}/projects",
        data=json.dumps({"project": {"name": "first"}}).encode(),
        headers={"Authorization": f"Bearer {said['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        project = json.load(answer)["project"]
    running.fine("user", "create", "eve@example.org")
    newest, before, *_ = running.lines()
    assert (newest["action"], newest["thing"]) == ("create_user", "eve@example.org")
    assert (before["action"], before["project_id"], before["address"]) == ("create_project", project["id"], "127.0.0.1")
    for words in (
        ("--project", project["id"]),
        ("--org", project["org_id"]),
        ("--action", "create_project"),
        ("--since", before["at"], "--until", newest["at"]),
    ):
        assert running.lines(*words) == [before], words
    assert running.lines("--limit", "1") == [newest]
    assert running.lines("--since", "2h", "--limit", "2") == [newest, before]
    assert running.lines("--until", "2h") == running.lines("--user", "eve@example.org") == []
    tomorrow = f"{clock.now() + timedelta(days=2):%Y-%m-%d}"
    assert running.fine("audit", "--since", tomorrow) == "The audit has no such line.\n"
    header, row = running.fine("audit", "--project", project["id"]).splitlines()
    assert header.split() == ["when", "who", "from", "did", "in", "to"]
    assert row.split()[3:6] == ["127.0.0.1", "create_project", project["id"]]

    assert "'--since': 'yesterday' is no moment; write it like 2h" in running.refused(
        "audit", "--since", "yesterday", status=2
    )
    assert "org_id" in running.refused("audit", "--org", "NO SUCH")
    assert "Nobody has an account" in running.refused("audit", "--user", "nobody@example.org")


def test_the_operators_first_link_is_printed_until_it_is_used(
    running: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = running.bough.home / "keys" / "welcome"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    root = running.said["api_url"].removesuffix("/api/v2")
    assert running.said["sign_in_url"] == f"{root}/welcome?token={kept.read_text().strip()}"

    settings = Settings(home=running.bough.home, hosts_file=None)
    ports = Ports(api_port=int(root.rsplit(":", 1)[1]), gateway_port=running.said["gateway_port"])
    startup_message.show(settings, ports, json=False, detached=True)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Sign", "in", running.said["sign_in_url"]] in shown

    used = Settings(home=tmp_path, hosts_file=None)
    used.keys.mkdir()
    (used.keys / "operator").write_text(running.said["api_key"])
    startup_message.show(used, ports, json=False, detached=True)
    assert "Sign in" not in capsys.readouterr().out
    startup_message.show(used, ports, json=True, detached=True)
    assert json.loads(capsys.readouterr().out)["sign_in_url"] is None
