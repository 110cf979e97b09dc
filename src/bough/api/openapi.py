"""Our own description of the API in OpenAPI 3.0.

`python -m bough.api.openapi` writes openapi/v2.json; `--check` fails when it is stale.
"""

import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from bough import openapi

COMMITTED = Path("openapi/v2.json")


def describe(app: FastAPI) -> dict[str, Any]:
    guests = getattr(app.state, "guests", ())
    ours = [route for route in app.routes if route not in guests]
    description = "Projects, branches and computes of a self-hosted Postgres platform."
    return openapi.described(ours, title=app.title, version=app.version, description=description)


def text(app: FastAPI) -> str:
    return openapi.text(describe(app))


def main(arguments: list[str]) -> int:
    from bough.api.app import bare_app  # noqa: PLC0415  the app serves this document, so it imports us

    return openapi.write(text(bare_app()), COMMITTED, "bough.api.openapi", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
