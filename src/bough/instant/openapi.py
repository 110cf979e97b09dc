"""Writes the OpenAPI 3.0 document of the instant API.

`python -m bough.instant.openapi` writes openapi/v1.json. `--check` fails if the file is out of date.
"""

import sys
from functools import cache
from pathlib import Path

import bough
from bough import openapi
from bough.instant import routes

COMMITTED = Path("openapi/v1.json")
_SCHEMA_NAMES = {"InstantDatabaseView": "DatabaseView"}  # the published names


@cache
def render() -> str:
    document = openapi.build_document(
        routes.router.routes,
        title="Bough instant databases",
        version=bough.__version__,
        description="A Postgres database with a single request and without an account. Claim it to keep it.",
    )
    return openapi.render_json(openapi.rename_schemas(document, _SCHEMA_NAMES))


def main(arguments: list[str]) -> int:
    return openapi.write_or_check(render(), COMMITTED, "bough.instant.openapi", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
