"""`bough get-db`: every option by name, servers that are not well, and the whole of it on a real platform."""

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
    """A platform that makes none, and tells what it was asked for."""
    with serve_stub([FULL]) as server:
        yield server


def asked_of(server: HttpStub) -> list[dict[str, object]]:
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
    said = (
        f"{full_platform_stub.url} says: There is no room for another database. {tmp_path / 'other'} was not touched."
    )
    assert done.stderr == f"bough: {said}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "taken"),
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
    full_platform_stub: HttpStub, env: Path, arguments: list[str], taken: str
) -> None:
    before = env.read_bytes() + f"\nexport {taken} = 'x'".encode()
    env.write_bytes(before)
    done = get_db("-e", env, *arguments, "--host", full_platform_stub.url)
    assert done.returncode == 1
    assert f"{env} has {taken} already; nothing was created." in done.stderr
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
    assert asked_of(full_platform_stub) == [{"ref": ref, "enable_logical_replication": logical}]


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
    ("arguments", "code", "words"),
    [
        (["--nothing"], 2, "No such option: --nothing"),
        (["clam"], 2, "'clam' is not one of 'claim'"),
        (["--env", ""], 2, "'--env': It must not be empty."),
        (["--ref", ""], 2, "'--ref': It must not be empty."),
        (["claim", "--seed", "x"], 2, "'--seed': It means nothing to `claim`."),
        (["claim", "-L"], 2, "'--logical-replication': It means nothing to `claim`."),
        (["--key", "A B"], 1, "'A B' cannot name a variable (--key)"),
        (["--key", "1A"], 1, "'1A' cannot name a variable (--key)"),
        (["--key", "A\nB"], 1, r"'A\nB' cannot name a variable (--key)"),
        (["--prefix", "A-"], 1, "'A-' cannot begin a variable (--prefix)"),
        (["--key", "PUBLIC_INSTANT_CLAIM_URL"], 1, "PUBLIC_INSTANT_CLAIM_URL would be written twice"),
        (["--host", "localhost:8432"], 1, "The address of the platform makes no sense; give --host"),
    ],
)
def test_a_slip_is_answered_in_a_line_and_nothing_happens(
    full_platform_stub: HttpStub, env: Path, arguments: list[str], code: int, words: str
) -> None:
    before = env.read_bytes()
    done = get_db("-e", env, *arguments, INSTANT_BASE_URL=full_platform_stub.url)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert (full_platform_stub.request_bodies, env.read_bytes()) == ([], before)


def test_a_file_that_cannot_be_written_is_found_out_before_a_database_is_made(
    full_platform_stub: HttpStub, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("nothing")
    done = get_db("-e", tmp_path / "link", "--host", full_platform_stub.url)
    assert (done.returncode, full_platform_stub.request_bodies) == (1, [])
    assert "is a link to a file that is not there" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "cannot be reached: [Errno 111] Connection refused. Check that the platform runs (`bough up`), and its"),
        (make_response(200, b"<html>"), "(status 200) is not one of a Bough platform. Check that the platform runs"),
        (make_response(429, b'{"message": "Too many"}', "Retry-After: 9"), "says: Too many. Try again in 9 s. "),
        (make_response(400, b'{"message": "No", "hint": "Do"}'), "says: No. Do. "),
    ],
    ids=["down", "a page", "too many", "a reason"],
)
def test_a_platform_that_is_not_well_is_a_sentence_and_no_file_is_touched(
    env: Path, answer: bytes | None, words: str
) -> None:
    before = env.read_bytes(), env.stat().st_mtime_ns, env.stat().st_ino
    with serve_stub([] if answer is None else [answer]) as server:
        url = server.url if answer is not None else _nowhere()
        done = get_db("-y", "-e", env, "--host", url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bough: ")
    assert words in done.stderr
    assert done.stderr.endswith(f"{env} was not touched.\n")
    assert (env.read_bytes(), env.stat().st_mtime_ns, env.stat().st_ino) == before
    assert list(env.parent.iterdir()) == [env]


def _nowhere() -> str:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


CLAIM = "http://localhost:8432/claim/0199a1b2-0000-7000-8000-000000000001"


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, str]:
    """One that writes down where it was sent."""
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
    assert done.stderr == "No browser could be started here; open this address in one.\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "has no PUBLIC_INSTANT_CLAIM_URL; `bough get-db` makes a database"),
        ("A_INSTANT_CLAIM_URL=http://a/\nB_INSTANT_CLAIM_URL=http://b/", "say which with --prefix"),
        ("PUBLIC_INSTANT_CLAIM_URL=file:///etc/passwd", "is no web address, so it was not opened"),
        ("PUBLIC_INSTANT_CLAIM_URL=--help", "is no web address, so it was not opened"),
        ("PUBLIC_INSTANT_CLAIM_URL=http://a b", "is no web address, so it was not opened"),
    ],
)
def test_claim_opens_nothing_else(tmp_path: Path, browser: dict[str, str], content: str, words: str) -> None:
    (tmp_path / ".env").write_text(content)
    done = get_db("claim", "-e", tmp_path / ".env", **browser)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert not (tmp_path / "visited").exists()


def value(connection_string: str, statement: str) -> object:
    with psycopg.connect(f"{connection_string}&hostaddr=127.0.0.1", connect_timeout=60) as session:
        row = session.execute(statement).fetchone()
    return row[0] if row else None


def test_every_option_at_once_makes_a_database_that_is_there(shared_bough: Program, env: Path) -> None:
    before, host = env.read_bytes(), shared_bough.up_output["instant_url"]
    seed = env.with_name("seed.sql")
    seed.write_text("create table étés (name text);\ninsert into étés values ('日;本'), ('b');\n")
    words = ["-y", "-e", env, "-k", "PG_URL", "-p", "VITE_", "-s", seed, "-L", "-r", "me", "--host", host]
    done = get_db(*words, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    pooled, direct, claim_url = told["connection_string"], told["direct_connection_string"], told["claim_url"]
    assert re.search(r"@ep-[a-z0-9-]+-pooler\.[^/]+/neondb\?channel_binding=require&sslmode=require$", pooled)
    assert direct == pooled.replace("-pooler", "", 1)
    assert env.read_bytes() == before + "\r\n".join(
        [
            "",
            f"# Expires at: {format_http_date(datetime.fromisoformat(told['expires_at']))}",
            f"# Claim it at: {claim_url}",
            f"PG_URL={pooled}",
            f"PG_URL_DIRECT={direct}",
            f"VITE_INSTANT_CLAIM_URL={claim_url}",
            "",
        ]
    ).encode()  # fmt: skip
    assert value(pooled, "select string_agg(name, ',') from étés") == "日;本,b"
    assert value(direct, "show wal_level") == "logical"

    found = InstantClient(host).get(told["id"])
    assert (found.status, found.connection_string, found.claim_url) == ("UNCLAIMED", pooled, claim_url)
    with pytest.raises(ClientError, match="Database not found"):
        InstantClient(host).get("nobody's")
    written = env.read_bytes()
    again = get_db(*words)
    assert (again.returncode, env.read_bytes()) == (1, written)
    assert "has PG_URL, PG_URL_DIRECT and VITE_INSTANT_CLAIM_URL already; nothing was created." in again.stderr


FAULTS = {
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
        "Nothing of the seed was kept.",
        f"The database is there and {env} is written; run the mended file with psql.",
    ]
    direct = parse_variables(env.read_bytes())["DATABASE_URL_DIRECT"]
    password = urlsplit(direct).password or ""
    assert password not in done.stderr
    for text, (line, words) in FAULTS.items():
        with pytest.raises(SeedFailed) as failed:
            Seed("seed.sql", text).run(direct)
        assert failed.value.public_message.startswith(f"The seed failed at seed.sql:{line}: ")
        assert words in failed.value.public_message
        assert failed.value.public_message.endswith("Nothing of the seed was kept.")
    with pytest.raises(SeedFailed, match="does not end it: what is in it was not kept"):
        Seed("seed.sql", "begin; create table a (i int);").run(direct)
    assert value(direct, "select count(*) from pg_tables where tableowner = current_user") == 0

    with pytest.raises(SeedFailed, match="what came before may have been kept"):
        Seed("seed.sql", "create table kept (i int); commit; select 1 / 0;").run(direct)
    assert value(direct, "select count(*) from kept") == 0
    with pytest.raises(SeedFailed, match=r"^The seed seed.sql was not run") as failed:
        Seed("seed.sql", "select 1").run(direct.replace(password, "wrong"))
    assert "wrong" not in failed.value.public_message
    Seed("seed.sql", " -- nothing\n;").run(direct)
