"""Rule 15: text from tenants never reaches the terminal as a control sequence."""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from bough.cli import escapes, output
from support.platform import temporary_folder
from support.program import ONE_WORKER, Program, wait_until

TITLE = "\x1b]0;owned\x07"
C1, BIDI, LINE_SEPARATOR = "\x9b31m", "\u202e", "\u2028"
# Postgres reads this as an escape string.
RAISE_LOG = r"do $$ begin raise log '%', E'begin\033]0;owned\007\x7f\u009b31m\u202e\u2028\033[31mend'; end $$"


@pytest.fixture(scope="module")
def bough() -> Iterator[Program]:
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", ONE_WORKER)
        try:
            program.up()
            for name in (f"one{TITLE}", f"two{C1}{BIDI}"):
                create_project(program, name)
            wait_until(lambda: (status := program.status())["computes_running"] == 2 and status["operations_open"] == 0)
            yield program
        finally:
            program.clean_up()


def create_project(bough: Program, name: str) -> None:
    request = urllib.request.Request(
        f"{bough.up_output['api_url']}/projects",
        data=json.dumps({"project": {"name": name}}).encode(),
        headers={"Authorization": f"Bearer {bough.up_output['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        assert response.status == 201


def is_safe(text: str) -> bool:
    return not any(
        (ord(character) < 32 and character not in "\n\t")
        or 127 <= ord(character) < 160
        or character in "\u202e\u2028\u2029"
        for character in text
    )


def list_projects(bough: Program) -> dict[str, str]:
    """Returns project ids by name."""
    request = urllib.request.Request(
        f"{bough.up_output['api_url']}/projects", headers={"Authorization": f"Bearer {bough.up_output['api_key']}"}
    )
    with urllib.request.urlopen(request) as response:
        return {project["name"]: project["id"] for project in json.load(response)["projects"]}


def test_the_log_of_an_endpoint_shows_escapes_as_text(bough: Program) -> None:
    project = list_projects(bough)[f"one{TITLE}"]
    result = bough("psql", project, "-c", RAISE_LOG)
    assert result.returncode == 0, result.stderr
    endpoints = [path.stem for path in (bough.home / "logs" / "computes").glob("*.log")]
    output_text = ""
    for endpoint in endpoints:
        output_text += bough("logs", endpoint, "-n", "1000").stdout
    assert r"begin\x1b]0;owned\x07\x7f\x9b31m\u202e\u2028\x1b[31mend" in output_text
    assert is_safe(output_text)


def test_names_in_sentences_and_tables_are_escaped(bough: Program) -> None:
    result = bough("psql")
    assert result.returncode == 1
    assert r"one\x1b]0;owned\x07" in result.stderr and r"two\x9b31m\u202e" in result.stderr
    assert is_safe(result.stderr)
    for command in (["storage", "status"], ["admin", "audit"], ["doctor"], ["status"], ["logs", "-n", "1000"]):
        result = bough.run(*command, "--home", str(bough.home))
        assert is_safe(result.stdout) and is_safe(result.stderr), command
    audit = bough.run("admin", "audit", "--home", str(bough.home)).stdout
    assert r"one\u001b]0;owned\u0007" in audit


def test_json_stays_json(bough: Program) -> None:
    audit = bough.run("admin", "audit", "--json", "--home", str(bough.home)).stdout
    assert is_safe(audit)
    assert f"one{TITLE}" in {line["details"].get("name") for line in json.loads(audit)["audit"]}
    assert json.loads(escapes.escape_json('"\x7f\x9b\u202e"')) == "\x7f\x9b\u202e"


@pytest.mark.parametrize(
    "text", [TITLE, C1, BIDI, LINE_SEPARATOR, "\r", "\x7f", "\x00", "\ud800", "\x1b[2J", "\x1b[1;31m"]
)
def test_nothing_that_prints_lets_one_through(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_text(f"a{text}z")
    output.print_note(f"a{text}z")
    output.print_error(f"a{text}z")
    output.print_table([(f"a{text}z", f"b{text}\nz")])
    output.print_json([f"a{text}z"])
    output.print_json_line(f'"a{text}z"')
    captured = capsys.readouterr()
    for line in (captured.out + captured.err).splitlines():
        assert text not in line
        assert is_safe(line.replace("\x1b[0m", "")), "only our own color codes may remain"
    assert len(captured.out.splitlines()) == 4, "a line break in a cell must not start a row"


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Grüße, 日本語, עברית, 👩‍🚀\tand\na line"
    assert escapes.escape(text) == text
