"""What `up` prints when the platform is ready."""

import shlex

from bough.cli import api_client, output
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
    addresses = ApiAddress(settings.listen, ports.api_port)
    key = read_operator_key(settings)
    sign_in_url = _sign_in_url(settings, ports)
    if json:
        output.print_json(
            {
                "api_url": addresses.api_url,
                "instant_url": addresses.instant_url,
                "console_url": addresses.console_url,
                "gateway_port": ports.gateway_port,
                "api_key": key,
                "sign_in_url": sign_in_url,
                "home": str(settings.home),
            }
        )
    else:
        _show_text(settings, addresses, key, sign_in_url)
        if detached:
            output.print_text(f"It runs in the background; `{output.format_command('down', settings.home)}` stops it.")
        else:
            output.print_text("Ctrl-C stops it, together with its computes.")


def read_operator_key(settings: Settings) -> str:
    """Control makes it at the first start, before it is ready."""
    return (settings.keys / "operator").read_text().strip()


def _sign_in_url(settings: Settings, ports: Ports) -> str | None:
    """The operator's first link, which works once; None when it was used."""
    try:
        token = operator_link_file(settings).read_text().strip()
    except FileNotFoundError:
        return None
    return mail.page_url(settings.model_copy(update={"api_port": ports.api_port}), f"/welcome?token={token}")


def _show_text(settings: Settings, addresses: ApiAddress, key: str, sign_in_url: str | None) -> None:
    output.print_text("Bough is ready.\n")
    first = [("  Sign in", sign_in_url), ("", "works once, to set your password")] if sign_in_url else []
    output.print_table(
        [
            ("  API", addresses.api_url),
            ("  Key", key),
            ("", f"kept in {settings.keys / 'operator'}"),
            *first,
            ("  Home", str(settings.home)),
            ("  Log", str(settings.log_file)),
        ]
    )
    curl = f"curl {addresses.api_url}/projects -H 'Authorization: Bearer {key}'"
    output.print_text(f"\nList your projects:\n\n  {curl}")
    output.print_text(f"\nCreate one:\n\n  {curl} \\\n    -H 'Content-Type: application/json' -d '{FIRST_PROJECT}'")
    _show_connecting(settings, addresses, key)
    if settings.instant_per_hour:
        output.print_text(f"A database for somebody without an account:\n\n  {_get_db(addresses)}\n")


def _get_db(addresses: ApiAddress) -> str:
    """As somebody types it who has nothing but our address."""
    command = f"{output.program_name()} get-db -y"
    return command if addresses.api_port == DEFAULT_API_PORT else f"{command} --host {addresses.base_url}"


def _show_connecting(settings: Settings, addresses: ApiAddress, key: str) -> None:
    running = state.read_running(settings)
    newest = _newest(running.api_address, key) if running else None
    if newest is None:
        output.print_text(
            "\nConnect with the `connection_uri` of the answer, in psql or any other client, or by name:\n"
        )
        output.print_text(f"  {output.format_command('psql first', settings.home)}\n")
        return
    name, uri = newest
    if hostnames.are_unresolvable(settings):
        uri = f"{uri}&hostaddr={addresses.host}"
    output.print_text(f"\nConnect to the project {name!r}, with any client or by name:\n\n  psql {shlex.quote(uri)}")
    output.print_text(f"  {output.format_command(f'psql {shlex.quote(name)}', settings.home)}\n")


def _newest(addresses: ApiAddress, key: str) -> tuple[str, str] | None:
    """The newest project and its URI, if it has the usual role and database and keeps the password."""
    try:
        listed = api_client.get(addresses, key, "/projects", limit=1)["projects"]
        if not listed:
            return None
        usual = {"role_name": role.DEFAULT_NAME, "database_name": database.DEFAULT_NAME}
        return listed[0]["name"], api_client.get(
            addresses, key, f"/projects/{listed[0]['id']}/connection_uri", **usual
        )["uri"]
    except PlatformError:
        return None
