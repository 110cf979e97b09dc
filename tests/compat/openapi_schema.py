"""Our own OpenAPI document as a schemathesis schema."""

from pathlib import Path

import schemathesis
from schemathesis.config import SchemathesisConfig

COMMITTED = Path(__file__).parents[2] / "openapi" / "v2.json"

openapi_schema = schemathesis.openapi.from_path(COMMITTED, config=SchemathesisConfig())
# The API ignores unknown parameters, so sending some is not an error; other tests cover keys.
openapi_schema.config.generation.update(allow_extra_parameters=False, with_security_parameters=False)
