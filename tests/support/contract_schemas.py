"""Validates values against OpenAPI 3.0 schemas, more strictly than the standard where clients depend on it.

1.0 is not an integer, a number must fit into the width of its format, and an unknown field is a violation.
"""

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_KEPT_KEYWORDS = frozenset(
    "type enum pattern format minimum maximum minLength maxLength minItems maxItems uniqueItems required".split()
)
_INTEGERS = {
    "int": range(-(2**63), 2**63),
    "int32": range(-(2**31), 2**31),
    "int64": range(-(2**63), 2**63),
    "uint64": range(2**64),
}


def _is_timestamp(value: str) -> bool:
    try:
        return bool(_TIMESTAMP.fullmatch(value) and datetime.fromisoformat(value).tzinfo)
    except ValueError:
        return False


def _is_uuid(value: str) -> bool:
    try:
        return str(uuid.UUID(value)) == value.lower()
    except ValueError:
        return False


def _is_email(value: str) -> bool:
    return bool(_EMAIL.fullmatch(value))


class _StrictInteger:
    """The keyword `strictInteger`, whose value is an integer format: rejects 1.0 and integers that do not fit."""

    def __init__(self, _parent: dict[str, Any], integer_format: str, _path: list[str | int]) -> None:
        self._format = integer_format

    def validate(self, instance: Any) -> None:
        if isinstance(instance, float) or (isinstance(instance, int) and instance not in _INTEGERS[self._format]):
            raise ValueError(f"{instance} is not an {self._format}")


class SchemaValidator:
    """The schemas of one OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._validators: dict[int, Draft202012Validator] = {}

    def find_violations(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """Describe each violation with its place; empty if the value matches the schema."""
        validator = self._validators.get(id(schema))
        if validator is None:
            json_schema = self.to_json_schema(schema)
            validator = self._validators[id(schema)] = Draft202012Validator(
                json_schema,
                formats={"date-time": _is_timestamp, "uuid": _is_uuid, "email": _is_email},
                validate_formats=True,
                keywords={"strictInteger": _StrictInteger},
            )
        if validator.is_valid(value):
            return []
        return sorted(f"{_place(error)}: {error.message[:300]}" for error in validator.iter_errors(value))

    def to_json_schema(self, schema: Mapping[str, Any], *, closed: bool = True) -> dict[str, Any]:
        """With `closed`, a field that no part of the schema names is a violation."""
        if "$ref" in schema:
            return self.to_json_schema(self.resolve_reference(schema["$ref"]), closed=closed)
        translated = {name: value for name, value in schema.items() if name in _KEPT_KEYWORDS}
        if translated.get("type") == "integer":
            translated["strictInteger"] = translated.pop("format", "int")
        if "properties" in schema:
            translated["properties"] = {name: self.to_json_schema(each) for name, each in schema["properties"].items()}
        if "items" in schema:
            translated["items"] = self.to_json_schema(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            translated["additionalProperties"] = self.to_json_schema(schema["additionalProperties"])
        for name in ("allOf", "anyOf", "oneOf"):
            if name in schema:
                translated[name] = [self.to_json_schema(each, closed=False) for each in schema[name]]
        if closed and _names_fields(translated):
            translated["unevaluatedProperties"] = False
        return {"anyOf": [{"type": "null"}, translated]} if schema.get("nullable") else translated

    def resolve_reference(self, reference: str) -> Mapping[str, Any]:
        node: Any = self._document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        resolved: Mapping[str, Any] = node
        return resolved


def _names_fields(schema: Mapping[str, Any]) -> bool:
    parts = [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return "properties" in schema or any(_names_fields(part) for part in parts)


def _place(error: ValidationError) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
