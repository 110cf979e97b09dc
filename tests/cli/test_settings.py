"""Settings come from flags, then variables, then bough.toml; errors name the invalid setting."""

import json
from typing import Any

import pytest

from support.program import Program


def setting(bough: Program, name: str, **variables: str) -> dict[str, Any]:
    done = bough("config", "--json", **variables)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)[name]
    return result


def write_file(bough: Program, text: str) -> None:
    bough.home.mkdir(exist_ok=True)
    (bough.home / "bough.toml").write_text(text)


def test_a_variable_wins_over_the_file_and_the_file_over_the_default(bough: Program) -> None:
    results = [setting(bough, "domain")]
    write_file(bough, 'domain = "file.example"')
    results.append(setting(bough, "domain"))
    results.append(setting(bough, "domain", BOUGH_DOMAIN="variable.example"))
    assert [(each["value"], each["from"]) for each in results] == [
        ("localhost", "default"),
        ("file.example", "file"),
        ("variable.example", "variable"),
    ]


def test_a_flag_wins_over_a_variable(bough: Program) -> None:
    home = setting(bough, "home", BOUGH_HOME="/somewhere/else")
    assert (home["value"], home["from"]) == (str(bough.home), "flag")


def test_every_setting_has_a_meaning(bough: Program) -> None:
    settings = json.loads(bough("config", "--json").stdout)
    assert len(settings) > 15
    assert [name for name, each in settings.items() if not each["description"]] == []


def test_the_password_of_the_store_is_not_shown(bough: Program) -> None:
    url = "postgresql://bough:hunter2@db.example/bough"
    for arguments in ([], ["--json"]):
        assert "hunter2" not in bough("config", *arguments, BOUGH_STORE_URL=url).stdout


@pytest.mark.parametrize("command", ["up", "status", "doctor", "config", "down", "restart", "logs"])
def test_an_unknown_variable_is_refused_by_name(bough: Program, command: str) -> None:
    done = bough(command, BOUGH_API_PROT="9000")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "bough: the variable BOUGH_API_PROT: there is no setting 'api_prot'. Did you mean 'api_port'?\n"
    )


def test_an_unknown_name_in_the_file_is_refused_by_name(bough: Program) -> None:
    write_file(bough, 'colour = "green"')
    done = bough("up")
    assert done.returncode == 2
    assert done.stderr.startswith(f"bough: {bough.home}/bough.toml: there is no setting 'colour'.")


@pytest.mark.parametrize(
    ("flag", "value", "name"),
    [("--storage", "zfs", "storage"), ("--api-port", "99999", "api_port"), ("--domain", "UPPER case", "domain")],
)
def test_a_wrong_flag_is_refused_by_name(bough: Program, flag: str, value: str, name: str) -> None:
    done = bough("up", flag, value)
    assert done.returncode == 2
    assert done.stderr.startswith(f"bough: The setting '{name}' is invalid: ")
    assert not bough.home.exists()


def test_a_file_that_is_not_toml_is_refused(bough: Program) -> None:
    write_file(bough, "domain = ")
    done = bough("up")
    assert done.returncode == 2
    assert "bough.toml is not valid TOML" in done.stderr
