"""Converts the OpenAPI 3.1 document of the framework to OpenAPI 3.0.

The relevant differences are in JSON Schema. Each API has its document in `openapi/`, and `--check` fails if it is out
of date.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute


def build_document(routes: Sequence[BaseRoute], *, title: str, version: str, description: str) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title=title,
        version=version,
        openapi_version="3.0.3",
        description=description,
        routes=routes,
        servers=[{"url": "/"}],
    )
    for path in document["paths"].values():
        for operation in path.values():
            operation["operationId"] = _camel(operation["operationId"].split("_api_v")[0])
            operation["responses"].pop("422", None)  # invalid requests get a 400
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    document = _downgrade_schema(document)
    for schema in document["components"]["schemas"].values():
        _drop_nullable_required(schema)
    return document


def rename_schemas(document: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Renames components and the references to them."""
    text = json.dumps(document)
    for name, published in names.items():
        text = text.replace(f'"#/components/schemas/{name}"', f'"#/components/schemas/{published}"')
    renamed: dict[str, Any] = json.loads(text)
    schemas = renamed["components"]["schemas"]
    renamed["components"]["schemas"] = {names.get(name, name): schema for name, schema in schemas.items()}
    return renamed


def render_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_or_check(generated: str, committed: Path, module: str, arguments: Sequence[str]) -> int:
    if "--check" not in arguments:
        committed.write_text(generated)
        return 0
    if committed.exists() and committed.read_text() == generated:
        return 0
    print(f"{committed} is out of date. Update it with: .venv/bin/python -m {module}", file=sys.stderr)
    return 1


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _downgrade_schema(node: Any) -> Any:
    """Converts a JSON Schema of draft 2020-12 to the dialect of OpenAPI 3.0."""
    if isinstance(node, list):
        return [_downgrade_schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {name: _downgrade_schema(value) for name, value in node.items()}
    if "anyOf" in node and {"type": "null"} in node["anyOf"]:
        types = [each for each in node.pop("anyOf") if each != {"type": "null"}]
        node = {**node, **(_wrap_reference(types[0]) if len(types) == 1 else {"anyOf": types}), "nullable": True}
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
        node = {**node, **_wrap_reference(reference)}
    return node


def _drop_nullable_required(schema: dict[str, Any]) -> None:
    """Fields without a value are omitted from responses, so they are not required."""
    properties = schema.get("properties", {})
    required = [name for name in schema.pop("required", []) if not properties[name].get("nullable")]
    if required:
        schema["required"] = required


def _wrap_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI 3.0 ignores the siblings of a reference, so the reference is wrapped in an allOf."""
    return {"allOf": [schema]} if "$ref" in schema else schema
