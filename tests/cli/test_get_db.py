"""`bough get-db`: its options, its errors with broken servers, and its use on a real platform."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from bough.cli.get_db.dotenv import format_http_date, parse_variables
from bough.cli.get_db.seed import Seed, SeedFailed
from bough_client.errors import ClientError
from bough_client.instant import InstantClient
from support import forkserver
from support.http_stub import HttpStub, make_response, serve_stub
from support.program import Program, make_environment

Result = subprocess.CompletedProcess[str]
FULL = make_response(503, b'{"message": "There is no room for another database."}')


def get_db(*arguments: str | Path, **variables: str) -> Result:
    return forkserver.run_forked(["get-db", *map(str, arguments)], make_environment(**variables))


@pytest.fixture
def full_platform_stub() -> Iterator[HttpStub]:
    """A platform that has no space for another database and records the requests."""
    with serve_stub([FULL]) as server:
        yield server


def requests_to(server: HttpStub) -> list[dict[str, object]]:
    return [json.loads(body) for body in server.request_bodies]


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / ".env"
    path.write_bytes(b"# mine\r\nA=1")
    return path


@pytest.mark.parametrize("option", ["--env", "-e"])
def test_env_names_the_environment_file(full_platform_stub: HttpStub, tmp_path: Path, option: str) -> None:
    done = get_db(option, tmp_path / "other", "--host", full_platform_stub.url)
    assert (done.returncode, done.stdout) == (1, "")
    message = "responded: There is no room for another database."
    unchanged = f"{tmp_path / 'other'} was not changed."
    assert done.stderr == f"bough: {full_platform_stub.url} {message} {unchanged}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "existing"),
    [
        ([], "DATABASE_URL"),
        ([], "DATABASE_URL_DIRECT"),
        ([], "PUBLIC_INSTANT_CLAIM_URL"),
        (["--key", "PG_URL"], "PG_URL"),
        (["-k", "PG_URL"], "PG_URL_DIRECT"),
        (["--prefix", "VITE_"], "VITE_INSTANT_CLAIM_URL"),
        (["-p", ""], "INSTANT_CLAIM_URL"),
    ],
)
def test_key_and_prefix_name_the_variables_and_one_that_is_there_is_not_overwritten(
    full_platform_stub: HttpStub, env: Path, arguments: list[str], existing: str
) -> None:
    before = env.read_bytes() + f"\nexport {existing} = 'x'".encode()
    env.write_bytes(before)
    done = get_db("-e", env, *arguments, "--host", full_platform_stub.url)
    assert done.returncode == 1
    assert f"{env} already has {existing}; nothing was created." in done.stderr
    assert (full_platform_stub.request_bodies, env.read_bytes()) == ([], before)


@pytest.mark.parametrize(
    ("arguments", "ref", "logical"),
    [
        ([], "get-db", False),
        (["--logical-replication"], "get-db", True),
        (["-L"], "get-db", True),
        (["--ref", "me; drop"], "me; drop", False),
        (["-r", "ich\N{SNOWMAN}"], "ich\N{SNOWMAN}", False),
    ],
)
def test_logical_replication_and_ref_are_what_the_platform_is_asked_for(
    full_platform_stub: HttpStub, env: Path, arguments: list[str], ref: str, logical: bool
) -> None:
    get_db("-e", env, *arguments, INSTANT_BASE_URL=full_platform_stub.url)
    assert requests_to(full_platform_stub) == [{"ref": ref, "enable_logical_replication": logical}]


@pytest.mark.parametrize("option", ["--seed", "-s"])
def test_seed_names_a_file_that_is_read_before_a_database_is_made(
    full_platform_stub: HttpStub, env: Path, option: str
) -> None:
    done = get_db("-e", env, option, env.parent, "--host", full_platform_stub.url)
    assert (done.returncode, full_platform_stub.request_bodies) == (1, [])
    assert done.stderr == f"bough: The seed {env.parent} cannot be read: Is a directory. Nothing was created.\n"


def test_host_counts_more_than_the_variable(full_platform_stub: HttpStub, env: Path) -> None:
    get_db("-e", env, "--host", f"{full_platform_stub.url}/", INSTANT_BASE_URL="http://127.0.0.1:9")
    assert len(full_platform_stub.request_bodies) == 1


def test_help_has_a_short_name_too() -> None:
    assert get_db("-h").stdout == get_db("--help").stdout != ""


@pytest.mark.parametrize(
    ("arguments", "code", "phrase"),
    [
        (["--nothing"], 2, "No such option: --nothing"),
        (["clam"], 2, "'clam' is not one of 'claim'"),
        (["--env", ""], 2, "'--env': The value must not be empty."),
        (["--ref", ""], 2, "'--ref': The value must not be empty."),
        (["claim", "--seed", "x"], 2, "'--seed': `claim` does not accept this option."),
        (["claim", "-L"], 2, "'--logical-replication': `claim` does not accept this option."),
        (["--key", "A B"], 1, "'A B' is not a variable name (--key)"),
        (["--key", "1A"], 1, "'1A' is not a variable name (--key)"),
        (["--key", "A\nB"], 1, r"'A\nB' is not a variable name (--key)"),
        (["--prefix", "A-"], 1, "'A-' cannot start a variable name (--prefix)"),
        (["--key", "PUBLIC_INSTANT_CLAIM_URL"], 1, "PUBLIC_INSTANT_CLAIM_URL would be set twice"),
        (["--host", "localhost:8432"], 1, "The URL of the platform is invalid; set --host"),
    ],
)
def test_a_slip_is_answered_in_a_line_and_nothing_happens(
    full_platform_stub: HttpStub, env: Path, arguments: list[str], code: int, phrase: str
) -> None:
    before = env.read_bytes()
    done = get_db("-e", env, *arguments, INSTANT_BASE_URL=full_platform_stub.url)
    assert (done.returncode, done.stdout) == (code, "")
    assert phrase in done.stderr
    assert "Traceback" not in done.stderr
    assert (full_platform_stub.request_bodies, env.read_bytes()) == ([], before)


def test_a_file_that_cannot_be_written_is_found_out_before_a_database_is_made(
    full_platform_stub: HttpStub, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("nothing")
    done = get_db("-e", tmp_path / "link", "--host", full_platform_stub.url)
    assert (done.returncode, full_platform_stub.request_bodies) == (1, [])
    assert "is a symbolic link to a missing file" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize(
    ("response", "phrase"),
    [
        (
            None,
            "cannot be reached: [Errno 111] Connection refused. Check that the platform is running (`bough up`) "
            "and its URL is correct (--host or",
        ),
        (
            make_response(200, b"<html>"),
            "(status 200) is not from a Bough platform. Check that the platform is running",
        ),
        (make_response(429, b'{"message": "Too many"}', "Retry-After: 9"), "responded: Too many. Try again in 9 s. "),
        (make_response(400, b'{"message": "No", "hint": "Do"}'), "responded: No. Do. "),
    ],
    ids=["down", "a page", "too many", "a reason"],
)
def test_a_platform_that_is_not_well_is_a_sentence_and_no_file_is_touched(
    env: Path, response: bytes | None, phrase: str
) -> None:
    before = env.read_bytes(), env.stat().st_mtime_ns, env.stat().st_ino
    with serve_stub([] if response is None else [response]) as server:
        url = server.url if response is not None else _unused_url()
        done = get_db("-y", "-e", env, "--host", url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bough: ")
    assert phrase in done.stderr
    assert done.stderr.endswith(f"{env} was not changed.\n")
    assert (env.read_bytes(), env.stat().st_mtime_ns, env.stat().st_ino) == before
    assert list(env.parent.iterdir()) == [env]


def _unused_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


CLAIM = "http://localhost:8432/claim/0199a1b2-0000-7000-8000-000000000001"


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, str]:
    """A browser that records the URLs that it opens."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/visited\n')
    program.chmod(0o755)
    return {"BROWSER": f"{program} %s"}


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (f"PUBLIC_INSTANT_CLAIM_URL={CLAIM}\n", []),
        (f"PUBLIC_INSTANT_CLAIM_URL={CLAIM}\nVITE_INSTANT_CLAIM_URL=http://other/\n", []),
        (f"export VITE_INSTANT_CLAIM_URL='{CLAIM}' # mine\r\n", []),
        (f"VITE_INSTANT_CLAIM_URL=http://other/\nINSTANT_CLAIM_URL={CLAIM}\n", ["--prefix", ""]),
    ],
)
def test_claim_prints_the_claim_url_and_opens_it(
    tmp_path: Path, browser: dict[str, str], content: str, arguments: list[str]
) -> None:
    (tmp_path / ".env").write_text(content)
    done = get_db("claim", "-e", tmp_path / ".env", *arguments, **browser)
    assert (done.returncode, done.stdout) == (0, f"{CLAIM}\n"), done.stderr
    assert (tmp_path / "visited").read_text() == f"{CLAIM}\n"


def test_claim_without_a_browser_still_says_where_to_go(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"PUBLIC_INSTANT_CLAIM_URL={CLAIM}\n")
    done = get_db("claim", "--json", "-e", tmp_path / ".env", PATH=str(tmp_path))
    assert (done.returncode, json.loads(done.stdout)) == (0, {"claim_url": CLAIM})
    assert done.stderr == "Could not start a browser; open this URL yourself.\n"


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("", "has no PUBLIC_INSTANT_CLAIM_URL; create a database with `bough get-db`"),
        ("A_INSTANT_CLAIM_URL=http://a/\nB_INSTANT_CLAIM_URL=http://b/", "choose one with --prefix"),
        ("PUBLIC_INSTANT_CLAIM_URL=file:///etc/passwd", "is not a web address, so it was not opened"),
        ("PUBLIC_INSTANT_CLAIM_URL=--help", "is not a web address, so it was not opened"),
        ("PUBLIC_INSTANT_CLAIM_URL=http://a b", "is not a web address, so it was not opened"),
    ],
)
def test_claim_opens_nothing_else(tmp_path: Path, browser: dict[str, str], content: str, phrase: str) -> None:
    (tmp_path / ".env").write_text(content)
    done = get_db("claim", "-e", tmp_path / ".env", **browser)
    assert (done.returncode, done.stdout) == (1, "")
    assert phrase in done.stderr
    assert not (tmp_path / "visited").exists()


def query(connection_string: str, statement: str) -> object:
    with psycopg.connect(f"{connection_string}&hostaddr=127.0.0.1", connect_timeout=60) as connection:
        row = connection.execute(statement).fetchone()
    return row[0] if row else None


def test_every_option_at_once_makes_a_database_that_is_there(shared_bough: Program, env: Path) -> None:
    before, host = env.read_bytes(), shared_bough.up_output["instant_url"]
    seed = env.with_name("seed.sql")
    seed.write_text("create table étés (name text);\ninsert into étés values ('日;本'), ('b');\n")
    arguments = ["-y", "-e", env, "-k", "PG_URL", "-p", "VITE_", "-s", seed, "-L", "-r", "me", "--host", host]
    done = get_db(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    pooled, direct, claim_url = result["connection_string"], result["direct_connection_string"], result["claim_url"]
    assert re.search(r"@ep-[a-z0-9-]+-pooler\.[^/]+/neondb\?channel_binding=require&sslmode=require$", pooled)
    assert direct == pooled.replace("-pooler", "", 1)
    assert env.read_bytes() == before + "\r\n".join(
        [
            "",
            f"# Expires at: {format_http_date(datetime.fromisoformat(result['expires_at']))}",
            f"# Claim it at: {claim_url}",
            f"PG_URL={pooled}",
            f"PG_URL_DIRECT={direct}",
            f"VITE_INSTANT_CLAIM_URL={claim_url}",
            "",
        ]
    ).encode()  # fmt: skip
    assert query(pooled, "select string_agg(name, ',') from étés") == "日;本,b"
    assert query(direct, "show wal_level") == "logical"

    database = InstantClient(host).get(result["id"])
    assert (database.status, database.connection_string, database.claim_url) == ("UNCLAIMED", pooled, claim_url)
    with pytest.raises(ClientError, match="Database not found"):
        InstantClient(host).get("nobody's")
    written = env.read_bytes()
    again = get_db(*arguments)
    assert (again.returncode, env.read_bytes()) == (1, written)
    assert "already has PG_URL, PG_URL_DIRECT and VITE_INSTANT_CLAIM_URL; nothing was created." in again.stderr


ERRORS = {
    "create table a (i int);\n\nselect 'é', '😀' from nobody;": (3, 'relation "nobody" does not exist'),
    "create table a (i int primary key);\n-- é\ninsert into a\nvalues (1), (1);": (3, "Key (i)=(1) already exists."),
    "create table a (i int);\ndo $$ begin\nraise 'no;'; end $$;": (2, "no;"),
    "create table a (i int);\nsélect 1;": (2, 'syntax error at or near "sélect"'),
    "create table a (i int);\nvacuum": (2, "VACUUM cannot run inside a transaction block"),
}


def test_a_seed_that_fails_says_where_and_leaves_nothing(shared_bough: Program, env: Path) -> None:
    seed = env.with_name("seed.sql")
    seed.write_text("create table a (i int);\ncreate table é (i int);\nselect 1 / (i - i) from a, nobody;\n")
    done = get_db("--yes", "--env", env, "--seed", seed, INSTANT_BASE_URL=shared_bough.up_output["instant_url"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f'bough: The seed failed at {seed}:3: relation "nobody" does not exist',
        "  3 | select 1 / (i - i) from a, nobody;",
        "No change of the seed was kept.",
        f"The database exists and {env} is written; correct the file and run it with psql.",
    ]
    direct = parse_variables(env.read_bytes())["DATABASE_URL_DIRECT"]
    password = urlsplit(direct).password or ""
    assert password not in done.stderr
    for text, (line, phrase) in ERRORS.items():
        with pytest.raises(SeedFailed) as failed:
            Seed("seed.sql", text).run(direct)
        assert failed.value.public_message.startswith(f"The seed failed at seed.sql:{line}: ")
        assert phrase in failed.value.public_message
        assert failed.value.public_message.endswith("No change of the seed was kept.")
    with pytest.raises(SeedFailed, match="does not end it: its changes were not kept"):
        Seed("seed.sql", "begin; create table a (i int);").run(direct)
    assert query(direct, "select count(*) from pg_tables where tableowner = current_user") == 0

    with pytest.raises(SeedFailed, match="earlier changes may have been kept"):
        Seed("seed.sql", "create table kept (i int); commit; select 1 / 0;").run(direct)
    assert query(direct, "select count(*) from kept") == 0
    with pytest.raises(SeedFailed, match=r"^The seed seed.sql was not run") as failed:
        Seed("seed.sql", "select 1").run(direct.replace(password, "wrong"))
    assert "wrong" not in failed.value.public_message
    Seed("seed.sql", " -- nothing\n;").run(direct)
