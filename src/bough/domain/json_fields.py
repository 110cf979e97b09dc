"""Parses the fields of JSON requests, and raises `Invalid` with a message that names the wrong field."""

from collections.abc import Mapping
from typing import Any

from bough.errors import Invalid

_MAX_TEXT_LENGTH = 1024
_MAX_NUMBER = 2**62


def parse_object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise Invalid("The request is not valid: it must be a JSON object.")
    return body


def parse_text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH or "\0" in value or not _can_encode(value):
        raise invalid_field(key, f"a string of at most {_MAX_TEXT_LENGTH} characters, without NUL")
    return value


def _can_encode(text: str) -> bool:
    """JSON can carry lone surrogates, which no database stores."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_count(fields: Mapping[str, Any], key: str, *, default: int | None = 0) -> int:
    value = fields.get(key, default)
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise invalid_field(key, f"a whole number from 0 to {_MAX_NUMBER}")
    return value


def parse_seconds(fields: Mapping[str, Any], key: str) -> float:
    value = fields.get(key, 0.0)
    if type(value) not in (int, float) or not 0 <= value <= _MAX_NUMBER:  # NaN and infinity are outside of it too
        raise invalid_field(key, f"a number from 0 to {_MAX_NUMBER}")
    return float(value)


def invalid_field(key: str, expected: str) -> Invalid:
    return Invalid(f"The request is not valid: {key} must be {expected}.")
