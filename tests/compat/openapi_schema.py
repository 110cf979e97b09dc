"""Our own OpenAPI document as schemathesis reads it."""

from pathlib import Path

import schemathesis
from schemathesis.config import SchemathesisConfig

COMMITTED = Path(__file__).parents[2] / "openapi" / "v2.json"

openapi_schema = schemathesis.openapi.from_path(COMMITTED, config=SchemathesisConfig())


def set_max_examples(count: int) -> None:
    """How many requests each operation gets beside those at the edges of its schema.

    Parameters that we do not know are passed over, so sending some is no fault; keys are tested elsewhere.
    """
    openapi_schema.config.generation.update(
        max_examples=count, allow_extra_parameters=False, with_security_parameters=False
    )
