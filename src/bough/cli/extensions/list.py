"""`bough extensions list`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.extensions import requests
from bough.engine.local.installs import installs, offered_extensions, selection
from bough.engine.local.installs.installs import Flavour, Install
from bough.engine.local.installs.update import list_serving
from bough.postgres.extensions import catalog
from bough.postgres.extensions.extension import Extension

COLUMNS = ("extension", "version", "state", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    pg_version: int
    name: str
    version: str = ""
    state: str  # default, added, available, not offered
    projects: tuple[str, ...] = ()  # that it was added for, if not for all
    preload_library: str | None = None
    summary: str = ""


def list_extensions(
    home: options.Home = None,
    project: options.Project = None,
    everything: Annotated[bool, typer.Option("--all", help="Show those that come with Postgres, too.")] = False,
    json: options.Json = False,
) -> None:
    """Show the extensions that are there or can be added.

    The state is `default` (in every build), `added`, `available` (`bough extensions add NAME` adds it) or
    `not offered`. One marked with `preload` must be named in preload_libraries of the project or endpoint
    before it can be used.
    """
    settings = config.load_settings({"home": home})
    serving = list_serving(settings.home, installs.find_installs(settings.cache))
    if project:
        found = requests.find_project(settings, project)
        own = serving.get(selection.project_key(found.install, found.id)) or serving.get(found.install)
        serving = {found.install: own} if own else {}
    rows = [row for row in _list_rows(serving) if everything or catalog.find(row.name) or row.state != "default"]
    if json:
        output.print_json({"extensions": [asdict(row) for row in rows]})
        return
    for number, (major, group) in enumerate(groupby(rows, key=lambda row: row.pg_version)):
        output.print_text(f"{'' if number == 0 else chr(10)}Postgres {major}")
        output.print_table([COLUMNS, *(_show(row) for row in group)])


def _list_rows(serving: Mapping[str, Install]) -> Iterator[_Row]:
    by_major: dict[int, dict[str, Install]] = {}
    for key, install in serving.items():
        if install.is_managed:
            by_major.setdefault(install.major, {})[key] = install
    for major, used in sorted(by_major.items()):
        yield from sorted(_list_of_major(major, used), key=lambda row: row.name)


def _list_of_major(major: int, used: Mapping[str, Install]) -> Iterator[_Row]:
    pins = {key: each for key, each in used.items() if selection.split_key(key)[1] is None}
    preferred = installs.select_preferred(pins.values() or used.values())[major]
    present = offered_extensions.read(preferred)
    for name, each in present.items():
        if each.control.is_creatable:
            yield _Row(
                pg_version=major,
                name=name,
                version=each.control.default_version,
                state="default" if each.is_default or not preferred.is_extended else "added",
                preload_library=each.preload_library,
                summary=each.summary,
            )
    for entry in catalog.EXTENSIONS:
        if entry.name not in present and major in entry.majors:
            projects = _find_projects(entry.name, used)
            state = _find_state(entry, preferred, projects)
            if preferred.flavour is Flavour.DEBIAN or state != "available":
                yield _Row(
                    pg_version=major,
                    name=entry.name,
                    state=state,
                    projects=projects,
                    preload_library=entry.preload_library,
                    summary=entry.summary if entry.is_allowed else entry.review,
                )


def _find_state(entry: Extension, preferred: Install, projects: Sequence[str]) -> str:
    """Return the state of an extension without a control file in the build that most projects use."""
    if entry.output_plugin and (preferred.libraries / f"{entry.output_plugin}.so").is_file():
        return "default" if entry.is_in_default_build else "added"
    return "added" if projects else "available" if entry.is_allowed else "not offered"


def _find_projects(name: str, used: Mapping[str, Install]) -> tuple[str, ...]:
    keys = [key for key, each in used.items() if name in offered_extensions.read(each)]
    return tuple(sorted(project for key in keys if (project := selection.split_key(key)[1])))


def _show(row: _Row) -> tuple[str, ...]:
    state = f"{row.state} for {', '.join(row.projects)}" if row.projects else row.state
    summary = f"{row.summary} (preload)" if row.preload_library and row.state != "not offered" else row.summary
    return (row.name, row.version or "-", state, summary)
