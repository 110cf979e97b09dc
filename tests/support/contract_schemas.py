"""OpenAPI 3.0 schemas as JSON Schema, strict enough to be worth a test.

Stricter than the standard where a client would be hurt: 1.0 is no integer, a number has the width of
its format, and a field that the shape does not know is a fault.
"""

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_KEPT = frozenset(
    "type enum pattern format minimum maximum minLength maxLength minItems maxItems uniqueItems required".split()
)


def _is_moment(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return bool(_MOMENT.fullmatch(value) and datetime.fromisoformat(value).tzinfo)


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or str(uuid.UUID(value)) == value.lower()


def _is_email(value: object) -> bool:
    return not isinstance(value, str) or bool(_EMAIL.fullmatch(value))


def _fits_int32(value: object) -> bool:
    return not isinstance(value, int) or -(2**31) <= value < 2**31


def _fits_int64(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


formats = FormatChecker(formats=())
for _name, _check in {
    "date-time": _is_moment,
    "uuid": _is_uuid,
    "email": _is_email,
    "int32": _fits_int32,
    "int64": _fits_int64,
}.items():
    formats.checks(_name, raises=ValueError)(_check)


def _is_integer(_checker: Any, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Strict = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
    format_checker=formats,
)


class SchemaValidator:
    """The schemas of one OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._validators: dict[int, Any] = {}

    def find_violations(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """What is wrong with the value, each fault with its place; nothing when it has the shape."""
        validator = self._validators.get(id(schema))
        if validator is None:
            translated = self.to_json_schema(schema)
            validator = self._validators[id(schema)] = _Strict(translated, format_checker=formats)
        return sorted(f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value))

    def to_json_schema(self, schema: Mapping[str, Any], *, closed: bool = True) -> dict[str, Any]:
        """`closed`: a field that no part of the schema names is refused."""
        if "$ref" in schema:
            return self.to_json_schema(self.resolve_reference(schema["$ref"]), closed=closed)
        made = {name: value for name, value in schema.items() if name in _KEPT}
        if "properties" in schema:
            made["properties"] = {name: self.to_json_schema(each) for name, each in schema["properties"].items()}
        if "items" in schema:
            made["items"] = self.to_json_schema(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            made["additionalProperties"] = self.to_json_schema(schema["additionalProperties"])
        for name in ("allOf", "anyOf", "oneOf"):
            if name in schema:
                made[name] = [self.to_json_schema(each, closed=False) for each in schema[name]]
        if closed and _names_fields(made):
            made["unevaluatedProperties"] = False
        return {"anyOf": [{"type": "null"}, made]} if schema.get("nullable") else made

    def resolve_reference(self, reference: str) -> Mapping[str, Any]:
        found: Any = self._document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        resolved: Mapping[str, Any] = found
        return resolved


def _names_fields(schema: Mapping[str, Any]) -> bool:
    parts = [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return "properties" in schema or any(_names_fields(part) for part in parts)
