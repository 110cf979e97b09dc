"""The `bough` command: a table of commands, each imported only when it is named.

Importing the platform takes longer than a person should wait for `bough --help`.
"""

import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bough import __version__
from bough.cli import output
from bough.errors import PlatformError, SettingRefused

COMMANDS = {
    "up": "Start the platform.",
    "down": "Stop the platform and its computes.",
    "restart": "Restart the platform; its computes keep running.",
    "status": "Show whether the platform runs, and where.",
    "doctor": "Check this machine, and say what mends it.",
    "config": "Show every setting, and where its value comes from.",
    "psql": "Open psql on a project of the running platform.",
    "get-db": "Get a Postgres database in one call, without an account.",
    "logs": "Show the platform's log, or that of one endpoint.",
    "storage": "Give volumes an image that can clone; show what they take.",
    "admin": "Make accounts, and read who did what.",
    "version": "Show the version.",
}
STORAGE = {
    "init": "Make a storage image and move all volumes into it.",
    "status": "Show what volumes take, and how much is free.",
}
ADMIN = {
    "user": "Make accounts, and give people a way back in.",
    "audit": "Show who did what, when and from where.",
}
USER = {
    "create": "Make an account; prints a link that sets its password.",
    "reset": "End the password of an account; prints a link that sets a new one.",
    "list": "Show everybody with an account.",
}
ELSEWHERE = {"get-db": "bough.cli.get_db"}  # commands that are no administration
HIDDEN: tuple[str, ...] = ("supervise", "serve")  # how `up` runs its own processes
PASSING_ON: dict[str, Any] = {"psql": {"ignore_unknown_options": True}}  # options that are another program's
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class _Lazy(MutableMapping[str, Any]):
    """Command name → command. Looking one up imports its module, which is named like it."""

    def __init__(self, package: str, listed: Mapping[str, str], hidden: Collection[str]) -> None:
        self._package = package
        self._listed = listed
        self._hidden = hidden
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._listed and name not in self._hidden:
            raise KeyError(name)
        if name not in self._loaded:
            path = ELSEWHERE.get(name, f"{self._package}.{name}")
            function = getattr(importlib.import_module(path), path.rpartition(".")[2])
            group = GROUPS.get(path)
            self._loaded[name] = _command(name, function) if group is None else _group(group, function)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


def _command(name: str, function: Callable[..., None]) -> Any:
    alone = typer.Typer(**PLAIN)
    alone.command(name, context_settings=PASSING_ON.get(name))(function)
    return typer.main.get_command(alone)


def _group(group: type[TyperGroup], function: Callable[..., None]) -> Any:
    """The function's docstring is the help of the group; it does nothing."""
    alone = typer.Typer(cls=group, no_args_is_help=True, **PLAIN)
    alone.callback()(function)
    return typer.main.get_command(alone)


class _Group(TyperGroup):
    package = "bough.cli.admin"
    listed = COMMANDS
    hidden_commands = HIDDEN

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Lazy(self.package, self.listed, self.hidden_commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.listed.items()))


class _StorageGroup(_Group):
    package = "bough.cli.admin.storage"
    listed = STORAGE
    hidden_commands = ()


class _AdminGroup(_Group):
    package = "bough.cli.admin.admin"
    listed = ADMIN
    hidden_commands = ()


class _UserGroup(_Group):
    package = "bough.cli.admin.admin.user"
    listed = USER
    hidden_commands = ()


GROUPS: dict[str, type[TyperGroup]] = {group.package: group for group in (_StorageGroup, _AdminGroup, _UserGroup)}

app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    **PLAIN,
)


def _show_version(asked: bool) -> None:
    if asked:
        output.say(f"bough {__version__}")
        raise typer.Exit


@app.callback()
def bough(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bough: a self-hosted Postgres platform.

    `bough up` starts it, `bough down` stops it, and `bough COMMAND --help` tells more.
    """


def main() -> None:
    try:
        app(prog_name="bough")
    except SettingRefused as error:
        output.fail(error.public)
        sys.exit(2)
    except PlatformError as error:
        output.fail(error.public)
        sys.exit(1)


if __name__ == "__main__":
    main()
