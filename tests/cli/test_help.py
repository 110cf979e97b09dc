"""The help texts match the files in `golden/`; WRITE_GOLDEN=1 rewrites them."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bough.cli.main import (
    ADMIN_COMMANDS,
    COMMANDS,
    EXTENSION_COMMANDS,
    POSTGRES_COMMANDS,
    STORAGE_COMMANDS,
    USER_COMMANDS,
)
from support.program import Program, make_environment

GROUPS = {
    "storage": STORAGE_COMMANDS,
    "postgres": POSTGRES_COMMANDS,
    "extensions": EXTENSION_COMMANDS,
    "admin": ADMIN_COMMANDS,
    "admin user": USER_COMMANDS,
}
SUBCOMMANDS = {f"{group} {name}": entry for group, entries in GROUPS.items() for name, entry in entries.items()}
ALL_COMMANDS = {**COMMANDS, **SUBCOMMANDS}
GOLDEN = Path(__file__).with_name("golden")
HEAVY = ("pydantic", "fastapi", "sqlalchemy", "structlog", "asyncio", "rich", "bough.config")


@pytest.mark.parametrize("command", ["", *ALL_COMMANDS])
def test_help_is_as_written(bough: Program, command: str) -> None:
    done = bough.run(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    file = GOLDEN / f"{command.replace(' ', '-') or 'bough'}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(done.stdout)
    assert done.stdout == file.read_text()


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(command: str) -> None:
    module, _, name = ALL_COMMANDS[command].target.partition(":")
    function = getattr(importlib.import_module(module), name)
    assert function.__doc__.splitlines()[0] == ALL_COMMANDS[command].help


def test_help_imports_nothing_slow() -> None:
    program = f"import sys, bough.cli.main; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=make_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["statsu"], "No such command 'statsu'. Did you mean 'status'"),
        (["up", "--hom", "/tmp"], "No such option: --hom"),
        (["storage", "statsu"], "No such command 'statsu'. Did you mean 'status'"),
        (["storage", "init"], "Missing option '--size'"),
        (["storage", "init", "--size", "50Q"], "'--size': '50Q' is not a size; write it like 50G"),
        (["storage", "init", "--size", "900M"], "'--size': 900M is too small; the minimum is 1G"),
        (["storage", "init", "--size", "50G", "--fs", "ext4"], "'ext4' is not one of 'xfs', 'btrfs'"),
        (["postgres", "updat"], "No such command 'updat'. Did you mean 'update'"),
        (["postgres", "rollback"], "Missing argument 'MAJOR'"),
        (["postgres", "rollback", "debian-17"], "'MAJOR': Input should be a valid integer"),
        (["admin", "user", "lst"], "No such command 'lst'. Did you mean 'list'"),
        (["admin", "user", "create"], "Missing argument 'EMAIL'"),
        (["up", "--api-port", "many"], "'--api-port': Input should be a valid integer"),
    ],
)
def test_a_slip_is_answered_in_a_line(bough: Program, arguments: list[str], phrase: str) -> None:
    done = bough.run(*arguments)
    assert done.returncode == 2
    assert phrase in done.stderr
    assert "Traceback" not in done.stderr


def test_version(bough: Program) -> None:
    assert bough.run("version").stdout.startswith("bough 0.")
    assert bough.run("--version").stdout.startswith("bough 0.")
