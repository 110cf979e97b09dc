"""The JavaScript tools against a whole platform: `get-db` as a command, and the plugin in a real Vite dev server."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest

from journeys.recording_proxy import RecordingProxy, run_proxy
from journeys.served_project import ADDRESS, RunningPlatform
from support import js_workspace
from support.js_workspace import Result, Workspace
from support.program import wait_until
from support.terminal import Terminal
from support.vite_site import create_site, parse_last_line

SEED = "create table tree (name text);\ninsert into tree values ('ash'), ('grün 🌳');\n"
CONFIGURED = """
import postgres from "vite-plugin-db";
export default { plugins: [postgres({ referrer: "site" })] };
"""


@pytest.fixture(scope="module")
def js() -> Workspace:
    return js_workspace.build_workspace()


@pytest.fixture(scope="module")
def recording_proxy(running_platform: RunningPlatform) -> Iterator[RecordingProxy]:
    """The platform, with someone at its door who writes down what is asked."""
    with run_proxy(running_platform.up_output["api_url"].removesuffix("/api/v2")) as made:
        yield made


@dataclass(frozen=True)
class Run:
    done: Result
    folder: Path
    env: Path
    sent: dict[str, Any]

    @property
    def settings(self) -> dict[str, str]:
        return settings_of(self.env)


def settings_of(env: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in env.read_text().splitlines() if line[:1] not in "#")


def value(uri: str, statement: str) -> Any:
    with psycopg.connect(f"{uri}&hostaddr={ADDRESS}", connect_timeout=60) as session:
        row = session.execute(statement).fetchone()
        return row[0] if row else None


@pytest.fixture(scope="module")
def run_with_defaults(js: Workspace, recording_proxy: RecordingProxy, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Nothing said but that nothing shall be asked."""
    folder = tmp_path_factory.mktemp("usual")
    done = js.run_get_db("--yes", cwd=folder, INSTANT_BASE_URL=recording_proxy.url)
    assert done.returncode == 0, done.stderr
    return Run(done, folder, folder / ".env", recording_proxy.bodies[-1])


@pytest.fixture(scope="module")
def run_with_options(js: Workspace, recording_proxy: RecordingProxy, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Everything said, in short, for a file that is there."""
    folder = tmp_path_factory.mktemp("chosen")
    (folder / "seed.sql").write_text(SEED)
    (folder / "app.env").write_bytes(b"# mine\r\nA='1'\r\n")
    options = "-y -e app.env -k POSTGRES_URL -p NEXT_PUBLIC_ -s seed.sql -L -r friend".split()
    done = js.run_get_db(*options, "--host", recording_proxy.url, cwd=folder)
    assert done.returncode == 0, done.stderr
    return Run(done, folder, folder / "app.env", recording_proxy.bodies[-1])


def test_yes_y_asks_nothing_and_uses_the_defaults(run_with_defaults: Run) -> None:
    assert [file.name for file in run_with_defaults.folder.iterdir()] == [".env"]
    assert list(run_with_defaults.settings) == ["DATABASE_URL", "DATABASE_URL_DIRECT", "PUBLIC_INSTANT_CLAIM_URL"]


def test_two_comment_lines_say_when_it_expires_and_where_to_claim_it(run_with_defaults: Run) -> None:
    expires, claim, *_ = run_with_defaults.env.read_text().splitlines()
    when = re.search(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$", expires)
    assert expires.startswith("# ") and when is not None
    left = parsedate_to_datetime(when[0]) - datetime.now(UTC)
    assert timedelta(hours=71) < left < timedelta(hours=73)
    assert claim.startswith("# ") and claim.endswith(run_with_defaults.settings["PUBLIC_INSTANT_CLAIM_URL"])


def test_database_url_is_the_pooled_connection_string_and_works(run_with_defaults: Run) -> None:
    uri = run_with_defaults.settings["DATABASE_URL"]
    assert "-pooler." in uri
    assert value(uri, "select 1") == 1


def test_database_url_direct_is_the_same_without_the_pooler_and_works(run_with_defaults: Run) -> None:
    uri = run_with_defaults.settings["DATABASE_URL_DIRECT"]
    assert uri == run_with_defaults.settings["DATABASE_URL"].replace("-pooler", "", 1)
    assert value(uri, "select 1") == 1


def test_the_claim_url_names_a_database_that_is_unclaimed(
    run_with_defaults: Run, recording_proxy: RecordingProxy
) -> None:
    site, _, database_id = run_with_defaults.settings["PUBLIC_INSTANT_CLAIM_URL"].rpartition("/claim/")
    assert site.startswith("http")
    with urlopen(f"{recording_proxy.url}/api/v1/database/{database_id}") as answer:
        assert json.load(answer)["status"] == "UNCLAIMED"


def test_the_password_is_in_the_file_and_nowhere_else(run_with_defaults: Run, run_with_options: Run) -> None:
    for run in (run_with_defaults, run_with_options):
        password = run.env.read_text().partition("//neondb_owner:")[2].partition("@")[0]
        assert len(password) > 8
        assert password not in run.done.stdout + run.done.stderr
    assert run_with_defaults.env.stat().st_mode & 0o777 == 0o600


def test_env_e_is_the_file_and_stays_as_it_was_otherwise(run_with_options: Run) -> None:
    assert not (run_with_options.folder / ".env").exists()
    lines = run_with_options.env.read_bytes().splitlines(keepends=True)
    assert lines[:2] == [b"# mine\r\n", b"A='1'\r\n"]
    assert len(lines) == 7 and all(line.endswith(b"\r\n") for line in lines)


def test_key_k_names_the_connection_strings(run_with_options: Run) -> None:
    assert {"POSTGRES_URL", "POSTGRES_URL_DIRECT"} < run_with_options.settings.keys()


def test_prefix_p_begins_the_public_variable(run_with_options: Run) -> None:
    assert "NEXT_PUBLIC_INSTANT_CLAIM_URL" in run_with_options.settings


def test_seed_s_has_run_when_the_command_ends(run_with_options: Run) -> None:
    assert "the seed has run" in run_with_options.done.stdout
    assert value(run_with_options.settings["POSTGRES_URL"], "select count(*) from tree where name like '%🌳'") == 1


def test_logical_replication_capital_l_is_enabled(run_with_defaults: Run, run_with_options: Run) -> None:
    assert value(run_with_options.settings["POSTGRES_URL_DIRECT"], "show wal_level") == "logical"
    assert [run.sent["enable_logical_replication"] for run in (run_with_defaults, run_with_options)] == [False, True]


def test_ref_r_is_told_to_the_platform(run_with_defaults: Run, run_with_options: Run) -> None:
    assert [run.sent["ref"] for run in (run_with_defaults, run_with_options)] == ["get-db", "friend"]


def test_claim_opens_the_claim_url_in_a_browser(
    js: Workspace, run_with_defaults: Run, run_with_options: Run, tmp_path: Path
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened.tmp && mv {tmp_path}/opened.tmp {tmp_path}/opened\n')
    browser.chmod(0o755)
    for run, options in ((run_with_defaults, ()), (run_with_options, ("-e", "app.env"))):
        url = run.env.read_text().splitlines()[-1].partition("=")[2]
        done = js.run_get_db("claim", *options, cwd=run.folder, BROWSER=str(browser), DISPLAY="", WAYLAND_DISPLAY="")
        assert (done.returncode, done.stderr) == (0, "")
        assert url in done.stdout
        _wait_for(tmp_path / "opened", f"{url}\n")


def _wait_for(file: Path, content: str) -> None:
    wait_until(lambda: file.exists() and file.read_text() == content)
    file.unlink()


def test_an_existing_key_is_not_overwritten_and_nothing_is_made(
    js: Workspace, run_with_defaults: Run, recording_proxy: RecordingProxy
) -> None:
    before, count = run_with_defaults.env.read_bytes(), len(recording_proxy.bodies)
    done = js.run_get_db("-y", cwd=run_with_defaults.folder, INSTANT_BASE_URL=recording_proxy.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has DATABASE_URL, DATABASE_URL_DIRECT and PUBLIC_INSTANT_CLAIM_URL already" in done.stderr
    assert (run_with_defaults.env.read_bytes(), len(recording_proxy.bodies)) == (before, count)


def test_a_person_is_asked_and_may_overwrite(js: Workspace, recording_proxy: RecordingProxy, tmp_path: Path) -> None:
    (tmp_path / "own.env").write_text("A=1\nDATABASE_URL=old\nB=2\n")
    with Terminal(js, tmp_path, INSTANT_BASE_URL=recording_proxy.url) as terminal:
        terminal.answer("Environment file", "own.env\r")
        terminal.answer("Variable for the connection string", "\r")
        terminal.answer("Prefix of public variables", "APP_\r")
        terminal.answer("SQL file", "\r")
        terminal.answer("Overwrite?", "y")
        assert terminal.check_exit_code(0)
    lines = (tmp_path / "own.env").read_text().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("A=1", "B=2", 7)
    written = settings_of(tmp_path / "own.env")
    assert set(written) == {"A", "B", "DATABASE_URL", "DATABASE_URL_DIRECT", "APP_INSTANT_CLAIM_URL"}
    assert value(written["DATABASE_URL"], "select 1") == 1


BAD_SEEDS = {
    "an error with a place": ("select '🌳🌳';\n\nselect 'ü',\n  nope;\n", 4, "nope;", 'column "nope" does not exist'),
    "an error without one": (
        "create table t (id int);\n\ninsert into t\nselect 1/0;",
        3,
        "insert into t",
        "division by zero",
    ),
}


def test_a_seed_that_fails_says_where_and_leaves_nothing_of_itself(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path: Path
) -> None:
    for number, (seed, line, text, message) in enumerate(BAD_SEEDS.values()):
        (tmp_path / "bad.sql").write_text(f"create table half (id int);\n{seed}")
        done = js.run_get_db(
            "-y", "-s", "bad.sql", "-e", f"{number}.env", cwd=tmp_path, INSTANT_BASE_URL=recording_proxy.url
        )
        assert done.returncode == 1
        said = done.stderr.splitlines()
        assert said[0].startswith(f"get-db: bad.sql:{line + 1}: {message}")
        assert said[1:3] == [f"  {text}", "Nothing of the seed was kept."]
        assert f"The database exists and {number}.env has it." in done.stderr
        written = settings_of(tmp_path / f"{number}.env")
        assert value(written["DATABASE_URL"], "select to_regclass('half')") is None


def test_the_first_dev_servers_get_one_database_whose_claim_url_vite_sees_at_once(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path: Path
) -> None:
    root = create_site(tmp_path, **{"seed.sql": SEED})
    options = {"referrer": "site", "seed": {"type": "sql-script", "path": "seed.sql"}}
    count = len(recording_proxy.bodies)
    with ThreadPoolExecutor(2) as two:
        both = list(
            two.map(lambda _: js.run_vite(root, "dev", options, INSTANT_BASE_URL=recording_proxy.url), range(2))
        )
    assert [body["ref"] for body in recording_proxy.bodies[count:]] == ["site"]
    written = settings_of(root / ".env")
    assert list(written) == ["DATABASE_URL", "DATABASE_URL_DIRECT", "VITE_INSTANT_CLAIM_URL"]
    for done in both:
        for seen in parse_last_line(done).values():
            assert seen["env"]["VITE_INSTANT_CLAIM_URL"] == written["VITE_INSTANT_CLAIM_URL"]
            assert written["VITE_INSTANT_CLAIM_URL"] in seen["served"]
            assert "DATABASE_URL" not in seen["served"]
    assert sum(done.stdout.count("[postgres] Made a database") for done in both) == 1
    assert value(written["DATABASE_URL"], "select count(*) from tree") == 2
    assert sorted(file.name for file in root.iterdir()) == [".env", "index.html", "main.js", "seed.sql"]


@pytest.mark.long
def test_whoever_installs_the_packed_packages_in_an_empty_folder_has_both_tools(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path: Path
) -> None:
    options = ("--workspaces", "--ignore-scripts", "--pack-destination", tmp_path)  # built already, and in use
    packed = js.run(*js.npm, "pack", *options, cwd=js_workspace.FOLDER)
    assert packed.returncode == 0, packed.stderr
    tarballs = sorted(tmp_path.glob("*.tgz"))
    assert len(tarballs) == 2
    versions = json.loads((js_workspace.FOLDER / "package.json").read_text())["devDependencies"]
    root = create_site(tmp_path / "app", **{"vite.config.mjs": CONFIGURED})
    beside = [f"{name}@{versions[name]}" for name in ("vite", "rolldown")]
    installed = js.run(*js.npm, *js_workspace.INSTALL, *tarballs, *beside, cwd=root)
    assert installed.returncode == 0, installed.stderr
    made = js.run(*js.npm, "exec", "--", "get-db", "-y", cwd=root, INSTANT_BASE_URL=recording_proxy.url)
    assert made.returncode == 0, made.stderr
    assert value(settings_of(root / ".env")["DATABASE_URL"], "select 1") == 1
    built = js.run(*js.npm, "exec", "--", "vite", "build", cwd=root)
    assert (built.returncode, (root / "dist").is_dir()) == (0, True), built.stderr
