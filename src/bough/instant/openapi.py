"""The description of this API in OpenAPI 3.0.

`python -m bough.instant.openapi` writes openapi/v1.json; `--check` fails when it is stale.
"""

import sys
from functools import cache
from pathlib import Path

import bough
from bough import openapi
from bough.instant import routes

COMMITTED = Path("openapi/v1.json")


@cache
def text() -> str:
    document = openapi.build_document(
        routes.router.routes,
        title="Bough instant databases",
        version=bough.__version__,
        description="A Postgres in one call, without an account. Whoever wants to keep it claims it.",
    )
    return openapi.render_json(document)


def main(arguments: list[str]) -> int:
    return openapi.write_or_check(text(), COMMITTED, "bough.instant.openapi", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
