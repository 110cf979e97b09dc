"""What `up` prints when the platform is ready."""

from bough.cli import output
from bough.cli.admin.addresses import Addresses
from bough.cli.admin.ports import Ports
from bough.config import Settings

FIRST_PROJECT = '{"project": {"name": "first"}}'


def show(settings: Settings, ports: Ports, *, json: bool, detached: bool) -> None:
    addresses = Addresses(settings.listen, ports.api_port)
    key = operator_key(settings)
    if json:
        output.show_json(
            {
                "api_url": addresses.api_url,
                "instant_url": addresses.instant_url,
                "console_url": addresses.console_url,
                "gateway_port": ports.gateway_port,
                "api_key": key,
                "home": str(settings.home),
            }
        )
    else:
        _for_people(settings, addresses, key, detached)


def operator_key(settings: Settings) -> str:
    """Control makes it at the first start, before it is ready."""
    return (settings.keys / "operator").read_text().strip()


def _for_people(settings: Settings, addresses: Addresses, key: str, detached: bool) -> None:
    output.say("Bough is ready.\n")
    output.table(
        [
            ("  API", addresses.api_url),
            ("  Key", key),
            ("", f"kept in {settings.keys / 'operator'}"),
            ("  Home", str(settings.home)),
            ("  Log", str(settings.log_file)),
        ]
    )
    curl = f"curl {addresses.api_url}/projects -H 'Authorization: Bearer {key}'"
    output.say(f"\nList your projects:\n\n  {curl}")
    output.say(f"\nCreate one:\n\n  {curl} \\\n    -H 'Content-Type: application/json' -d '{FIRST_PROJECT}'\n")
    if detached:
        output.say(f"It runs in the background; `{output.our_command('down', settings.home)}` stops it.")
    else:
        output.say("Ctrl-C stops it, together with its computes.")
