"""Our own OpenAPI document as a schemathesis schema."""

from pathlib import Path

import schemathesis
from schemathesis.config import SchemathesisConfig

COMMITTED = Path(__file__).parents[2] / "openapi" / "v2.json"

openapi_schema = schemathesis.openapi.from_path(COMMITTED, config=SchemathesisConfig())


def set_max_examples(count: int) -> None:
    """Sets the number of requests per operation besides the edge cases of its schema.

    The API ignores unknown parameters, so sending some is not an error; other tests cover keys.
    """
    openapi_schema.config.generation.update(
        max_examples=count, allow_extra_parameters=False, with_security_parameters=False
    )
