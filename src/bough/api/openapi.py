"""Writes the OpenAPI 3.0 document of the management API.

`python -m bough.api.openapi` writes openapi/v2.json. `--check` fails if the file is out of date.
"""

import sys
from pathlib import Path

from bough import openapi
from bough.api import documentation
from bough.api.app import create_bare_app

COMMITTED = Path("openapi/v2.json")


def main(arguments: list[str]) -> int:
    return openapi.write_or_check(
        documentation.render_openapi(create_bare_app()), COMMITTED, "bough.api.openapi", arguments
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
