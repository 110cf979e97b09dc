"""Our own description of the API in OpenAPI 3.0.

The framework writes 3.1; the difference that matters is in JSON Schema, and is taken back here.
`python -m bough.api.openapi` writes openapi/v2.json; `--check` fails when it is stale.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

COMMITTED = Path("openapi/v2.json")


def describe(app: FastAPI) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.0.3",
        description="Projects, branches and computes of a self-hosted Postgres platform.",
        routes=app.routes,
        servers=[{"url": "/"}],
    )
    for path in document["paths"].values():
        for operation in path.values():
            operation["operationId"] = _camel(operation["operationId"].split("_api_v2_")[0])
            operation["responses"].pop("422", None)  # a request that does not validate gets our 400
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    document = _old(document)
    for schema in document["components"]["schemas"].values():
        _loosen(schema)
    return document


def text(app: FastAPI) -> str:
    return json.dumps(describe(app), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _old(node: Any) -> Any:
    """A schema of 2020-12 as one of OpenAPI 3.0."""
    if isinstance(node, list):
        return [_old(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {name: _old(value) for name, value in node.items()}
    if "anyOf" in node and {"type": "null"} in node["anyOf"]:
        kept = [each for each in node.pop("anyOf") if each != {"type": "null"}]
        node = {**node, **(_one(kept[0]) if len(kept) == 1 else {"anyOf": kept}), "nullable": True}
    if "const" in node and "properties" not in node:
        node["enum"] = [node.pop("const")]
    if isinstance(node.get("examples"), list):
        node["example"] = node.pop("examples")[0]
    if isinstance(node.get("patternProperties"), dict):
        node["additionalProperties"] = next(iter(node.pop("patternProperties").values()))
    if isinstance(node.get("propertyNames"), dict) and node.get("type") == "object":
        del node["propertyNames"]
    if "$ref" in node and len(node) > 1:
        reference = {"$ref": node.pop("$ref")}
        node = {**node, **_one(reference)}
    return node


def _loosen(schema: dict[str, Any]) -> None:
    """What has no value is left out of an answer, so it is not required either."""
    properties = schema.get("properties", {})
    required = [name for name in schema.pop("required", []) if not properties[name].get("nullable")]
    if required:
        schema["required"] = required


def _one(schema: dict[str, Any]) -> dict[str, Any]:
    """Beside a reference nothing else counts in 3.0, so it goes into an allOf."""
    return {"allOf": [schema]} if "$ref" in schema else schema


def main(arguments: list[str]) -> int:
    from bough.api.app import bare_app  # noqa: PLC0415  the app serves this document, so it imports us

    fresh = text(bare_app())
    if "--check" not in arguments:
        COMMITTED.write_text(fresh)
        return 0
    if COMMITTED.exists() and COMMITTED.read_text() == fresh:
        return 0
    print(f"{COMMITTED} is stale. Write it anew: .venv/bin/python -m bough.api.openapi", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
