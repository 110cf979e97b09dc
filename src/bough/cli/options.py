"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from bough.supervisor.flags import Flags

Home = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder with the platform's data. [default: /var/lib/bough as root, else ./.bough]"
    ),
]
ApiPort = Annotated[
    int | None, typer.Option(metavar="N", help="Port of the API. [default: 8432, or a free one if it is in use]")
]
GatewayPort = Annotated[
    int | None,
    typer.Option(metavar="N", help="Port for Postgres clients. [default: 5432, or a free one if it is in use]"),
]
Domain = Annotated[
    str | None, typer.Option(metavar="D", help="Domain of the endpoints' host names. [default: localhost]")
]
Storage = Annotated[
    str | None,
    typer.Option(metavar="auto|reflink|btrfs|plain", help="How branches are cloned. [default: auto]"),
]
Project = Annotated[str | None, typer.Option("--project", metavar="ID", help="Only this project. [default: all]")]
RestartComputes = Annotated[
    bool, typer.Option("--restart", help="Restart the computes that run older builds, one after another.")
]
RestartNow = Annotated[
    bool,
    typer.Option(
        "--now",
        "--restart",
        help="Restart computes that run older builds at once, one after another, instead of in their maintenance "
        "windows.",
    ),
]
IgnoreUnknown = Annotated[
    bool,
    typer.Option("--ignore-unknown", help="Continue although it is not known which extensions some branches use."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def collect_flags(
    home: Path | None, api_port: int | None, gateway_port: int | None, domain: str | None, storage: str | None
) -> Flags:
    """Return the settings that `up` and the processes it starts take as flags."""
    return {"home": home, "api_port": api_port, "gateway_port": gateway_port, "domain": domain, "storage": storage}
