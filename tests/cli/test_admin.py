"""`bough admin` and the operator's first sign-in link, on a running platform."""

import json
import stat
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
from support.program import Program, Result, create_project


@dataclass(frozen=True)
class Running:
    bough: Program
    up_output: dict[str, Any]

    def admin(self, *arguments: str) -> Result:
        return self.bough.run("admin", *arguments, "--home", str(self.bough.home))

    def run(self, *arguments: str) -> str:
        done = self.admin(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def fail(self, *arguments: str, status: int = 1) -> str:
        done = self.admin(*arguments)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert "Traceback" not in done.stderr
        return done.stderr

    def audit(self, *arguments: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = json.loads(self.run("audit", "--json", *arguments))["audit"]
        return entries


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home")
        try:
            yield Running(program, program.up())
        finally:
            program.clean_up()


def test_a_platform_that_does_not_run_says_what_starts_it(bough: Program) -> None:
    for arguments in (["user", "list"], ["audit"]):
        done = bough.run("admin", *arguments, "--home", str(bough.home))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"bough: Bough is not running in {bough.home}; start it with `")
        assert done.stderr.endswith(f" up --home {bough.home}`.\n")


def test_accounts_are_made_listed_and_mended(running: Running) -> None:
    root = running.up_output["api_url"].removesuffix("/api/v2")
    printed = running.run("user", "create", "Ada@Example.com", "--name", "Ada \x1b[31mLin")
    assert printed.startswith("Created an account for ada@example.com.\n")
    assert f"\n\n  {root}/reset?token=" in printed
    created = json.loads(running.run("user", "create", "bob@example.com", "--json"))
    assert (created["user"]["name"], created["user"]["can_sign_in"]) == ("bob", False)
    operator, ada, bob = json.loads(running.run("user", "list", "--json"))["users"]
    assert (ada["email"], bob) == ("ada@example.com", created["user"])
    table = running.run("user", "list").splitlines()
    assert table[0].split() == ["e-mail", "name", "plan", "since", "can", "sign", "in"]
    assert [row.split()[0] for row in table[1:]] == [operator["email"], "ada@example.com", "bob@example.com"]
    assert "Ada \\x1b[31mLin" in table[2], "a name cannot colour the terminal"

    first = running.run("user", "reset", "ADA@example.com")
    second = json.loads(running.run("user", "reset", "ada@example.com", "--json"))["link"]
    assert first.startswith("The old password of ada@example.com no longer works.\n")
    assert second.split("token=")[1] not in first

    assert "already" in running.fail("user", "create", "ada@example.com")
    assert "is not an e-mail address" in running.fail("user", "create", "ada")
    unknown = running.fail("user", "reset", "eve@example.com")
    assert "There is no account with the address 'eve@example.com'" in unknown
    assert "admin user list --home" in unknown


def test_the_audit_is_read_by_whom_what_where_and_when(running: Running) -> None:
    project = create_project(running.up_output, "first")["project"]
    running.run("user", "create", "eve@example.org")
    newest, before, *_ = running.audit()
    assert (newest["action"], newest["thing"]) == ("create_user", "eve@example.org")
    assert (before["action"], before["project_id"], before["address"]) == ("create_project", project["id"], "127.0.0.1")
    for arguments in (
        ("--project", project["id"]),
        ("--org", project["org_id"]),
        ("--action", "create_project"),
        ("--since", before["at"], "--until", newest["at"]),
    ):
        assert running.audit(*arguments) == [before], arguments
    assert running.audit("--limit", "1") == [newest]
    assert running.audit("--since", "2h", "--limit", "2") == [newest, before]
    assert running.audit("--until", "2h") == running.audit("--user", "eve@example.org") == []
    tomorrow = f"{clock.now() + timedelta(days=2):%Y-%m-%d}"
    assert running.run("audit", "--since", tomorrow) == "No audit entries match.\n"
    header, row = running.run("audit", "--project", project["id"]).splitlines()
    assert header.split() == ["time", "actor", "address", "action", "scope", "target"]
    assert row.split()[3:6] == ["127.0.0.1", "create_project", project["id"]]

    assert "'--since': 'yesterday' is not a time; write it like 2h" in running.fail(
        "audit", "--since", "yesterday", status=2
    )
    assert "org_id" in running.fail("audit", "--org", "NO SUCH")
    assert "There is no account" in running.fail("audit", "--user", "nobody@example.org")


def test_the_operators_first_link_is_printed_until_it_is_used(
    running: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    link_file = running.bough.home / "keys" / "welcome"
    assert stat.S_IMODE(link_file.stat().st_mode) == 0o600
    root = running.up_output["api_url"].removesuffix("/api/v2")
    assert running.up_output["sign_in_url"] == f"{root}/welcome?token={link_file.read_text().strip()}"

    settings = Settings(home=running.bough.home, hosts_file=None)
    ports = Ports(api_port=int(root.rsplit(":", 1)[1]), gateway_port=running.up_output["gateway_port"])
    startup_message.show(settings, ports, json=False, detached=True)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Sign", "in", running.up_output["sign_in_url"]] in printed

    used = Settings(home=tmp_path, hosts_file=None)
    used.keys.mkdir()
    (used.keys / "operator").write_text(running.up_output["api_key"])
    startup_message.show(used, ports, json=False, detached=True)
    assert "Sign in" not in capsys.readouterr().out
    startup_message.show(used, ports, json=True, detached=True)
    assert json.loads(capsys.readouterr().out)["sign_in_url"] is None
