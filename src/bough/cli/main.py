"""The `bough` command: a table of commands whose modules are imported only when they are used.

Importing the whole platform would make `bough --help` slow.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bough import __version__
from bough.cli import output
from bough.errors import InvalidSetting, PlatformError


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: the function that implements it, and the first line of its help."""

    target: str  # module:function
    help: str = ""


COMMANDS = {
    "up": Entry("bough.cli.up:up", "Start the platform."),
    "down": Entry("bough.cli.down:down", "Stop the platform and its computes."),
    "restart": Entry("bough.cli.restart:restart", "Restart the platform; its computes keep running."),
    "status": Entry("bough.cli.status:status", "Show whether the platform is running, and where."),
    "doctor": Entry("bough.cli.doctor.command:doctor", "Check this machine and suggest fixes."),
    "config": Entry("bough.cli.config:config", "Show every setting and where its value comes from."),
    "psql": Entry("bough.cli.psql:psql", "Open psql on a project of the running platform."),
    "get-db": Entry("bough.cli.get_db.command:get_db", "Get a Postgres database in one call, without an account."),
    "logs": Entry("bough.cli.logs:logs", "Show the last lines of the platform's log or of an endpoint's log."),
    "storage": Entry("bough.cli.storage:storage", "Create a storage image; show the disk usage of volumes."),
    "postgres": Entry("bough.cli.postgres:postgres", "Show and update the Postgres builds that projects run on."),
    "extensions": Entry("bough.cli.extensions:extensions", "Show Postgres extensions, and add or remove some."),
    "admin": Entry("bough.cli.admin:admin", "Manage accounts and show the audit log."),
    "version": Entry("bough.cli.version:version", "Show the version."),
}
# How `up` starts its own processes. `bough restart` of an earlier version relies on these names.
HIDDEN_COMMANDS = {
    "supervise": Entry("bough.cli.supervise:supervise"),
    "serve": Entry("bough.cli.serve:serve"),
}
STORAGE_COMMANDS = {
    "init": Entry("bough.cli.storage.init:init", "Create a storage image and move all volumes into it."),
    "status": Entry("bough.cli.storage.status:status", "Show the disk usage of volumes and the free space."),
}
POSTGRES_COMMANDS = {
    "status": Entry("bough.cli.postgres.status:status", "Show the builds, and computes that still run older ones."),
    "update": Entry("bough.cli.postgres.update:update", "Download the newest minor versions and use them."),
    "rollback": Entry("bough.cli.postgres.rollback:rollback", "Go back to the build before the last update."),
}
EXTENSION_COMMANDS = {
    "list": Entry("bough.cli.extensions.list:list_extensions", "Show the extensions that are there or can be added."),
    "add": Entry("bough.cli.extensions.add:add", "Add an extension to the build of all projects, or of one."),
    "remove": Entry("bough.cli.extensions.remove:remove", "Remove an extension that was added."),
}
ADMIN_COMMANDS = {
    "user": Entry("bough.cli.users:user", "Create accounts and reset passwords."),
    "audit": Entry("bough.cli.audit:audit", "Show who did what, when and from which address."),
}
USER_COMMANDS = {
    "create": Entry("bough.cli.users.create:create", "Create an account and print a link that sets its password."),
    "reset": Entry(
        "bough.cli.users.reset:reset", "Invalidate an account's password and print a link that sets a new one."
    ),
    "list": Entry("bough.cli.users.list:list_users", "List all accounts."),
}
CONTEXT_SETTINGS: dict[str, Any] = {"psql": {"ignore_unknown_options": True}}  # psql receives them
TYPER_SETTINGS: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class _LazyCommands(MutableMapping[str, Any]):
    """Command name → command. A lookup imports the command's module."""

    def __init__(self, entries: Mapping[str, Entry], hidden: Mapping[str, Entry]) -> None:
        self._listed = entries
        self._entries = {**entries, **hidden}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        entry = self._entries[name]
        if name not in self._loaded:
            module, _, function_name = entry.target.partition(":")
            function = getattr(importlib.import_module(module), function_name)
            group = GROUPS.get(entry.target)
            self._loaded[name] = _make_command(name, function) if group is None else _make_group(group, function)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


def _make_command(name: str, function: Callable[..., None]) -> Any:
    single = typer.Typer(**TYPER_SETTINGS)
    single.command(name, context_settings=CONTEXT_SETTINGS.get(name))(function)
    return typer.main.get_command(single)


def _make_group(group: type[TyperGroup], function: Callable[..., None]) -> Any:
    """The function's docstring is the help text of the group; the function does nothing."""
    single = typer.Typer(cls=group, no_args_is_help=True, **TYPER_SETTINGS)
    single.callback()(function)
    return typer.main.get_command(single)


class _Group(TyperGroup):
    entries: Mapping[str, Entry] = COMMANDS
    hidden_entries: Mapping[str, Entry] = HIDDEN_COMMANDS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands(self.entries, self.hidden_entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])


class _StorageGroup(_Group):
    entries = STORAGE_COMMANDS
    hidden_entries: Mapping[str, Entry] = {}


class _PostgresGroup(_Group):
    entries = POSTGRES_COMMANDS
    hidden_entries: Mapping[str, Entry] = {}


class _ExtensionGroup(_Group):
    entries = EXTENSION_COMMANDS
    hidden_entries: Mapping[str, Entry] = {}


class _AdminGroup(_Group):
    entries = ADMIN_COMMANDS
    hidden_entries: Mapping[str, Entry] = {}


class _UserGroup(_Group):
    entries = USER_COMMANDS
    hidden_entries: Mapping[str, Entry] = {}


GROUPS: dict[str, type[TyperGroup]] = {
    COMMANDS["storage"].target: _StorageGroup,
    COMMANDS["postgres"].target: _PostgresGroup,
    COMMANDS["extensions"].target: _ExtensionGroup,
    COMMANDS["admin"].target: _AdminGroup,
    ADMIN_COMMANDS["user"].target: _UserGroup,
}

app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    **TYPER_SETTINGS,
)


def _show_version(requested: bool) -> None:
    if requested:
        output.print_text(f"bough {__version__}")
        raise typer.Exit


@app.callback()
def bough(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bough: a self-hosted Postgres platform.

    `bough up` starts it, `bough down` stops it, and `bough COMMAND --help` describes a command.
    """


def main() -> None:
    try:
        app(prog_name="bough")
    except InvalidSetting as error:
        output.print_error(error.public_message)
        sys.exit(2)
    except PlatformError as error:
        output.print_error(error.public_message)
        sys.exit(1)


if __name__ == "__main__":
    main()
