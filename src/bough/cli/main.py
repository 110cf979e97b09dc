"""The `bough` command: a table of commands, each imported only when it is named.

Importing the platform takes longer than a person should wait for `bough --help`.
"""

import importlib
import sys
from collections.abc import Iterator, MutableMapping
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
    "logs": "Show the platform's log, or that of one endpoint.",
    "version": "Show the version.",
}
HIDDEN = ("supervise", "serve")  # how `up` runs its own processes


class _Lazy(MutableMapping[str, Any]):
    """Command name → command. Looking one up imports its module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS and name not in HIDDEN:
            raise KeyError(name)
        if name not in self._loaded:
            function = getattr(importlib.import_module(f"bough.cli.admin.{name}"), name)
            alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            alone.command(name)(function)
            self._loaded[name] = typer.main.get_command(alone)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Lazy()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
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
