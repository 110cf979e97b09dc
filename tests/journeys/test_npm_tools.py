"""The JavaScript tools with a whole platform: the command `get-db`, and the plugin in a real Vite dev server."""

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
VITE_CONFIG = """
import postgres from "vite-plugin-db";
export default { plugins: [postgres({ referrer: "site" })] };
"""


@pytest.fixture(scope="module")
def js() -> Workspace:
    return js_workspace.build_workspace()


@pytest.fixture(scope="module")
def recording_proxy(running_platform: RunningPlatform) -> Iterator[RecordingProxy]:
    """A proxy in front of the platform that records requests."""
    with run_proxy(running_platform.up_output["api_url"].removesuffix("/api/v2")) as proxy:
        yield proxy


@dataclass(frozen=True)
class GetDbRun:
    result: Result
    folder: Path
    env_file: Path
    request_body: dict[str, Any]

    @property
    def variables(self) -> dict[str, str]:
        return read_env_file(self.env_file)


def read_env_file(env_file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in env_file.read_text().splitlines() if line[:1] not in "#")


def fetch_value(uri: str, statement: str) -> Any:
    with psycopg.connect(f"{uri}&hostaddr={ADDRESS}", connect_timeout=60) as session:
        row = session.execute(statement).fetchone()
        return row[0] if row else None


@pytest.fixture(scope="module")
def run_with_defaults(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path_factory: pytest.TempPathFactory
) -> GetDbRun:
    """The command with default options and without prompts."""
    folder = tmp_path_factory.mktemp("defaults")
    result = js.run_get_db("--yes", cwd=folder, INSTANT_BASE_URL=recording_proxy.url)
    assert result.returncode == 0, result.stderr
    return GetDbRun(result, folder, folder / ".env", recording_proxy.bodies[-1])


@pytest.fixture(scope="module")
def run_with_options(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path_factory: pytest.TempPathFactory
) -> GetDbRun:
    """The command with every option in its short form, for an existing file."""
    folder = tmp_path_factory.mktemp("options")
    (folder / "seed.sql").write_text(SEED)
    (folder / "app.env").write_bytes(b"# mine\r\nA='1'\r\n")
    options = "-y -e app.env -k POSTGRES_URL -p NEXT_PUBLIC_ -s seed.sql -L -r friend".split()
    result = js.run_get_db(*options, "--host", recording_proxy.url, cwd=folder)
    assert result.returncode == 0, result.stderr
    return GetDbRun(result, folder, folder / "app.env", recording_proxy.bodies[-1])


def test_yes_y_asks_nothing_and_uses_the_defaults(run_with_defaults: GetDbRun) -> None:
    assert [file.name for file in run_with_defaults.folder.iterdir()] == [".env"]
    assert list(run_with_defaults.variables) == ["DATABASE_URL", "DATABASE_URL_DIRECT", "PUBLIC_INSTANT_CLAIM_URL"]


def test_two_comment_lines_say_when_it_expires_and_where_to_claim_it(run_with_defaults: GetDbRun) -> None:
    expires, claim, *_ = run_with_defaults.env_file.read_text().splitlines()
    expiry = re.search(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$", expires)
    assert expires.startswith("# ") and expiry is not None
    remaining = parsedate_to_datetime(expiry[0]) - datetime.now(UTC)
    assert timedelta(hours=71) < remaining < timedelta(hours=73)
    assert claim.startswith("# ") and claim.endswith(run_with_defaults.variables["PUBLIC_INSTANT_CLAIM_URL"])


def test_database_url_is_the_pooled_connection_string_and_works(run_with_defaults: GetDbRun) -> None:
    uri = run_with_defaults.variables["DATABASE_URL"]
    assert "-pooler." in uri
    assert fetch_value(uri, "select 1") == 1


def test_database_url_direct_is_the_same_without_the_pooler_and_works(run_with_defaults: GetDbRun) -> None:
    uri = run_with_defaults.variables["DATABASE_URL_DIRECT"]
    assert uri == run_with_defaults.variables["DATABASE_URL"].replace("-pooler", "", 1)
    assert fetch_value(uri, "select 1") == 1


def test_the_claim_url_names_a_database_that_is_unclaimed(
    run_with_defaults: GetDbRun, recording_proxy: RecordingProxy
) -> None:
    site, _, database_id = run_with_defaults.variables["PUBLIC_INSTANT_CLAIM_URL"].rpartition("/claim/")
    assert site.startswith("http")
    with urlopen(f"{recording_proxy.url}/api/v1/database/{database_id}") as response:
        assert json.load(response)["status"] == "UNCLAIMED"


def test_the_password_is_in_the_file_and_nowhere_else(run_with_defaults: GetDbRun, run_with_options: GetDbRun) -> None:
    for run in (run_with_defaults, run_with_options):
        password = run.env_file.read_text().partition("//neondb_owner:")[2].partition("@")[0]
        assert len(password) > 8
        assert password not in run.result.stdout + run.result.stderr
    assert run_with_defaults.env_file.stat().st_mode & 0o777 == 0o600


def test_env_e_is_the_file_and_stays_as_it_was_otherwise(run_with_options: GetDbRun) -> None:
    assert not (run_with_options.folder / ".env").exists()
    lines = run_with_options.env_file.read_bytes().splitlines(keepends=True)
    assert lines[:2] == [b"# mine\r\n", b"A='1'\r\n"]
    assert len(lines) == 7 and all(line.endswith(b"\r\n") for line in lines)


def test_key_k_names_the_connection_strings(run_with_options: GetDbRun) -> None:
    assert {"POSTGRES_URL", "POSTGRES_URL_DIRECT"} < run_with_options.variables.keys()


def test_prefix_p_begins_the_public_variable(run_with_options: GetDbRun) -> None:
    assert "NEXT_PUBLIC_INSTANT_CLAIM_URL" in run_with_options.variables


def test_seed_s_has_run_when_the_command_ends(run_with_options: GetDbRun) -> None:
    assert "the seed has run" in run_with_options.result.stdout
    assert (
        fetch_value(run_with_options.variables["POSTGRES_URL"], "select count(*) from tree where name like '%🌳'") == 1
    )


def test_logical_replication_capital_l_is_enabled(run_with_defaults: GetDbRun, run_with_options: GetDbRun) -> None:
    assert fetch_value(run_with_options.variables["POSTGRES_URL_DIRECT"], "show wal_level") == "logical"
    assert [run.request_body["enable_logical_replication"] for run in (run_with_defaults, run_with_options)] == [
        False,
        True,
    ]


def test_ref_r_is_told_to_the_platform(run_with_defaults: GetDbRun, run_with_options: GetDbRun) -> None:
    assert [run.request_body["ref"] for run in (run_with_defaults, run_with_options)] == ["get-db", "friend"]


def test_claim_opens_the_claim_url_in_a_browser(
    js: Workspace, run_with_defaults: GetDbRun, run_with_options: GetDbRun, tmp_path: Path
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened.tmp && mv {tmp_path}/opened.tmp {tmp_path}/opened\n')
    browser.chmod(0o755)
    for run, options in ((run_with_defaults, ()), (run_with_options, ("-e", "app.env"))):
        url = run.env_file.read_text().splitlines()[-1].partition("=")[2]
        result = js.run_get_db("claim", *options, cwd=run.folder, BROWSER=str(browser), DISPLAY="", WAYLAND_DISPLAY="")
        assert (result.returncode, result.stderr) == (0, "")
        assert url in result.stdout
        _wait_for_content(tmp_path / "opened", f"{url}\n")


def _wait_for_content(file: Path, content: str) -> None:
    wait_until(lambda: file.exists() and file.read_text() == content)
    file.unlink()


def test_an_existing_key_is_not_overwritten_and_nothing_is_made(
    js: Workspace, run_with_defaults: GetDbRun, recording_proxy: RecordingProxy
) -> None:
    before, count = run_with_defaults.env_file.read_bytes(), len(recording_proxy.bodies)
    result = js.run_get_db("-y", cwd=run_with_defaults.folder, INSTANT_BASE_URL=recording_proxy.url)
    assert (result.returncode, result.stdout) == (1, "")
    assert "already has DATABASE_URL, DATABASE_URL_DIRECT and PUBLIC_INSTANT_CLAIM_URL" in result.stderr
    assert (run_with_defaults.env_file.read_bytes(), len(recording_proxy.bodies)) == (before, count)


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
    variables = read_env_file(tmp_path / "own.env")
    assert set(variables) == {"A", "B", "DATABASE_URL", "DATABASE_URL_DIRECT", "APP_INSTANT_CLAIM_URL"}
    assert fetch_value(variables["DATABASE_URL"], "select 1") == 1


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
        result = js.run_get_db(
            "-y", "-s", "bad.sql", "-e", f"{number}.env", cwd=tmp_path, INSTANT_BASE_URL=recording_proxy.url
        )
        assert result.returncode == 1
        lines = result.stderr.splitlines()
        assert lines[0].startswith(f"get-db: bad.sql:{line + 1}: {message}")
        assert lines[1:3] == [f"  {text}", "No change of the seed was kept."]
        assert f"The database exists and {number}.env is written; correct the seed and run it with\n" in result.stderr
        variables = read_env_file(tmp_path / f"{number}.env")
        assert fetch_value(variables["DATABASE_URL"], "select to_regclass('half')") is None


def test_the_first_dev_servers_get_one_database_whose_claim_url_vite_sees_at_once(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path: Path
) -> None:
    root = create_site(tmp_path, **{"seed.sql": SEED})
    options = {"referrer": "site", "seed": {"type": "sql-script", "path": "seed.sql"}}
    count = len(recording_proxy.bodies)
    with ThreadPoolExecutor(2) as executor:
        results = list(
            executor.map(lambda _: js.run_vite(root, "dev", options, INSTANT_BASE_URL=recording_proxy.url), range(2))
        )
    assert [body["ref"] for body in recording_proxy.bodies[count:]] == ["site"]
    variables = read_env_file(root / ".env")
    assert list(variables) == ["DATABASE_URL", "DATABASE_URL_DIRECT", "VITE_INSTANT_CLAIM_URL"]
    for result in results:
        for page in parse_last_line(result).values():
            assert page["env"]["VITE_INSTANT_CLAIM_URL"] == variables["VITE_INSTANT_CLAIM_URL"]
            assert variables["VITE_INSTANT_CLAIM_URL"] in page["served"]
            assert "DATABASE_URL" not in page["served"]
    assert sum(result.stdout.count("[postgres] Created a database") for result in results) == 1
    assert fetch_value(variables["DATABASE_URL"], "select count(*) from tree") == 2
    assert sorted(file.name for file in root.iterdir()) == [".env", "index.html", "main.js", "seed.sql"]


@pytest.mark.long
def test_whoever_installs_the_packed_packages_in_an_empty_folder_has_both_tools(
    js: Workspace, recording_proxy: RecordingProxy, tmp_path: Path
) -> None:
    # Without scripts: the workspace is built already, and other tests use it.
    options = ("--workspaces", "--ignore-scripts", "--pack-destination", tmp_path)
    packed = js.run(*js.npm, "pack", *options, cwd=js_workspace.FOLDER)
    assert packed.returncode == 0, packed.stderr
    tarballs = sorted(tmp_path.glob("*.tgz"))
    assert len(tarballs) == 2
    versions = json.loads((js_workspace.FOLDER / "package.json").read_text())["devDependencies"]
    root = create_site(tmp_path / "app", **{"vite.config.mjs": VITE_CONFIG})
    peers = [f"{name}@{versions[name]}" for name in ("vite", "rolldown")]
    installed = js.run(*js.npm, *js_workspace.INSTALL, *tarballs, *peers, cwd=root)
    assert installed.returncode == 0, installed.stderr
    get_db_run = js.run(*js.npm, "exec", "--", "get-db", "-y", cwd=root, INSTANT_BASE_URL=recording_proxy.url)
    assert get_db_run.returncode == 0, get_db_run.stderr
    assert fetch_value(read_env_file(root / ".env")["DATABASE_URL"], "select 1") == 1
    build = js.run(*js.npm, "exec", "--", "vite", "build", cwd=root)
    assert (build.returncode, (root / "dist").is_dir()) == (0, True), build.stderr
