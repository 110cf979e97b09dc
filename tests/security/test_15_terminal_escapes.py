"""Row 15: what a tenant wrote never reaches the terminal as a control sequence."""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from bough.cli import escapes, output
from support.platform import temporary_folder
from support.program import ONE_WORKER, Program, wait_until

TITLE = "\x1b]0;owned\x07"
C1, BIDI, LINE = "\x9b31m", "\u202e", "\u2028"
# As Postgres reads it: an escape string.
RAISED = r"do $$ begin raise log '%', E'begin\033]0;owned\007\x7f\u009b31m\u202e\u2028\033[31mend'; end $$"


@pytest.fixture(scope="module")
def bough() -> Iterator[Program]:
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", ONE_WORKER)
        try:
            program.up()
            for name in (f"one{TITLE}", f"two{C1}{BIDI}"):
                create(program, name)
            wait_until(lambda: (now := program.status())["computes_running"] == 2 and now["operations_open"] == 0)
            yield program
        finally:
            program.clean_up()


def create(bough: Program, name: str) -> None:
    request = urllib.request.Request(
        f"{bough.up_output['api_url']}/projects",
        data=json.dumps({"project": {"name": name}}).encode(),
        headers={"Authorization": f"Bearer {bough.up_output['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


def is_safe(text: str) -> bool:
    return not any(
        (ord(letter) < 32 and letter not in "\n\t") or 127 <= ord(letter) < 160 or letter in "\u202e\u2028\u2029"
        for letter in text
    )


def projects(bough: Program) -> dict[str, str]:
    """Name → id."""
    request = urllib.request.Request(
        f"{bough.up_output['api_url']}/projects", headers={"Authorization": f"Bearer {bough.up_output['api_key']}"}
    )
    with urllib.request.urlopen(request) as answer:
        return {one["name"]: one["id"] for one in json.load(answer)["projects"]}


def test_the_log_of_an_endpoint_shows_escapes_as_text(bough: Program) -> None:
    project = projects(bough)[f"one{TITLE}"]
    done = bough("psql", project, "-c", RAISED)
    assert done.returncode == 0, done.stderr
    endpoints = [path.stem for path in (bough.home / "logs" / "computes").glob("*.log")]
    shown = ""
    for endpoint in endpoints:
        shown += bough("logs", endpoint, "-n", "1000").stdout
    assert r"begin\x1b]0;owned\x07\x7f\x9b31m\u202e\u2028\x1b[31mend" in shown
    assert is_safe(shown)


def test_names_in_sentences_and_tables_are_escaped(bough: Program) -> None:
    done = bough("psql")
    assert done.returncode == 1
    assert r"one\x1b]0;owned\x07" in done.stderr and r"two\x9b31m\u202e" in done.stderr
    assert is_safe(done.stderr)
    for command in (["storage", "status"], ["admin", "audit"], ["doctor"], ["status"], ["logs", "-n", "1000"]):
        done = bough.run(*command, "--home", str(bough.home))
        assert is_safe(done.stdout) and is_safe(done.stderr), command
    audit = bough.run("admin", "audit", "--home", str(bough.home)).stdout
    assert r"one\u001b]0;owned\u0007" in audit


def test_json_stays_json(bough: Program) -> None:
    shown = bough.run("admin", "audit", "--json", "--home", str(bough.home)).stdout
    assert is_safe(shown)
    assert f"one{TITLE}" in {line["details"].get("name") for line in json.loads(shown)["audit"]}
    assert json.loads(escapes.escape_json('"\x7f\x9b\u202e"')) == "\x7f\x9b\u202e"


@pytest.mark.parametrize("text", [TITLE, C1, BIDI, LINE, "\r", "\x7f", "\x00", "\ud800", "\x1b[2J", "\x1b[1;31m"])
def test_nothing_that_prints_lets_one_through(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_text(f"a{text}z")
    output.print_note(f"a{text}z")
    output.print_error(f"a{text}z")
    output.print_table([(f"a{text}z", f"b{text}\nz")])
    output.print_json([f"a{text}z"])
    output.print_json_line(f'"a{text}z"')
    said = capsys.readouterr()
    for line in (said.out + said.err).splitlines():
        assert text not in line
        assert is_safe(line.replace("\x1b[0m", "")), "our own colours are all that is left"
    assert len(said.out.splitlines()) == 4, "an end of line in a cell is no other row"


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Grüße, 日本語, עברית, 👩‍🚀\tand\na line"
    assert escapes.escape(text) == text
