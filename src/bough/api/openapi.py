"""Our own description of the API in OpenAPI 3.0, as a file.

`python -m bough.api.openapi` writes openapi/v2.json; `--check` fails when it is stale.
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
