"""Options that several commands share."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Home = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where the platform lives. [default: /var/lib/bough as root, else ./.bough]"),
]
ApiPort = Annotated[
    int | None, typer.Option(metavar="N", help="Port of the API. [default: 8432, or a free one if it is taken]")
]
GatewayPort = Annotated[
    int | None,
    typer.Option(metavar="N", help="Port for Postgres clients. [default: 5432, or a free one if it is taken]"),
]
Domain = Annotated[str | None, typer.Option(metavar="D", help="Domain of the endpoint hosts. [default: localhost]")]
Storage = Annotated[
    str | None,
    typer.Option(metavar="auto|reflink|btrfs|plain", help="How branches are cloned. [default: auto]"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]

Flags = Mapping[str, Any]  # setting → value, None when the flag was not given


def to_arguments(flags: Flags) -> Iterator[str]:
    """The flags as another process of ours takes them."""
    for name, value in flags.items():
        if value is not None:
            yield f"--{name.replace('_', '-')}"
            yield str(value)
