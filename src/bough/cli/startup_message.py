"""What `bough up` prints when the platform is ready."""

import shlex

from bough.cli import api_client, output
from bough.cli.doctor import builds
from bough.cli.operator_client import read_operator_key
from bough.config import DEFAULT_API_PORT, Settings
from bough.control.people.operator import operator_link_file
from bough.control.platform import hostnames, mail
from bough.domain import database, role
from bough.errors import PlatformError
from bough.supervisor import state
from bough.supervisor.addresses import ApiAddress
from bough.supervisor.ports import Ports

FIRST_PROJECT = '{"project": {"name": "first"}}'


def show(settings: Settings, ports: Ports, *, json: bool, detached: bool) -> None:
    address = ApiAddress(settings.listen, ports.api_port)
    key = read_operator_key(settings)
    sign_in_url = _sign_in_url(settings, ports)
    for warning in builds.list_project_warnings(settings):
        output.print_note(f"{output.colorize('warning')}: {warning}")
    if json:
        output.print_json(
            {
                "api_url": address.api_url,
                "instant_url": address.instant_url,
                "console_url": address.console_url,
                "gateway_port": ports.gateway_port,
                "api_key": key,
                "sign_in_url": sign_in_url,
                "home": str(settings.home),
            }
        )
        return
    _show_text(settings, address, key, sign_in_url)
    if detached:
        command = output.format_command("down", settings.home)
        output.print_text(f"Bough runs in the background; stop it with `{command}`.")
    else:
        output.print_text("Ctrl-C stops Bough and its computes.")


def _sign_in_url(settings: Settings, ports: Ports) -> str | None:
    """Return the operator's first sign-in link, which works once; None after it was used."""
    try:
        token = operator_link_file(settings).read_text().strip()
    except FileNotFoundError:
        return None
    return mail.page_url(settings.model_copy(update={"api_port": ports.api_port}), f"/welcome?token={token}")


def _show_text(settings: Settings, address: ApiAddress, key: str, sign_in_url: str | None) -> None:
    output.print_text("Bough is ready.\n")
    sign_in = [("  Sign in", sign_in_url), ("", "sets your password; works once")] if sign_in_url else []
    output.print_table(
        [
            ("  API", address.api_url),
            ("  Key", key),
            ("", f"stored in {settings.keys / 'operator'}"),
            *sign_in,
            ("  Home", str(settings.home)),
            ("  Log", str(settings.log_file)),
        ]
    )
    curl = f"curl {address.api_url}/projects -H 'Authorization: Bearer {key}'"
    output.print_text(f"\nList your projects:\n\n  {curl}")
    output.print_text(
        f"\nCreate a project:\n\n  {curl} \\\n    -H 'Content-Type: application/json' -d '{FIRST_PROJECT}'"
    )
    _show_how_to_connect(settings, address, key)
    if settings.instant_per_hour:
        output.print_text(f"Get a database without an account:\n\n  {_get_db_command(address)}\n")


def _get_db_command(address: ApiAddress) -> str:
    command = f"{output.program_name()} get-db -y"
    return command if address.api_port == DEFAULT_API_PORT else f"{command} --host {address.base_url}"


def _show_how_to_connect(settings: Settings, address: ApiAddress, key: str) -> None:
    running = state.read_running(settings)
    newest = _find_newest_project(running.api_address, key) if running else None
    if newest is None:
        output.print_text(
            "\nConnect with psql or another client, using the `connection_uri` in the response, or by project name:\n"
        )
        output.print_text(f"  {output.format_command('psql first', settings.home)}\n")
        return
    name, uri = newest
    if hostnames.are_unresolvable(settings):
        uri = f"{uri}&hostaddr={address.host}"
    output.print_text(
        f"\nConnect to the project {name!r} with any client, or by project name:\n\n  psql {shlex.quote(uri)}"
    )
    output.print_text(f"  {output.format_command(f'psql {shlex.quote(name)}', settings.home)}\n")


def _find_newest_project(address: ApiAddress, key: str) -> tuple[str, str] | None:
    """Return the name and URI of the newest project if it has the default role and database and stores the password."""
    defaults = {"role_name": role.DEFAULT_NAME, "database_name": database.DEFAULT_NAME}
    try:
        projects = api_client.get(address, key, "/projects", limit=1)["projects"]
        if not projects:
            return None
        path = f"/projects/{projects[0]['id']}/connection_uri"
        return projects[0]["name"], api_client.get(address, key, path, **defaults)["uri"]
    except PlatformError:
        return None
