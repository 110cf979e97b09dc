"""Converts between rows and frozen domain objects. A field has the name of its column.

A field whose column has another name declares it: `field(metadata={"column": "name"})`.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_Converter = Callable[[Any], Any] | None
_Fields = tuple[tuple[str, str, _Converter], ...]  # the field, its column, and how to convert the value
_fields_by_class: dict[type[Any], _Fields] = {}


def from_row(kind: type[T], row: Mapping[str, Any], prefix: str = "") -> T:
    """Build a `kind` from columns whose names begin with `prefix`. Ids and enums get their own types."""
    fields = _fields_by_class.get(kind)
    if fields is None:
        fields = _fields_by_class[kind] = _fields(kind)
    return kind(**{name: _convert(converter, row[prefix + column]) for name, column, converter in fields})


def to_columns(instance: Any) -> dict[str, Any]:
    return {_column(field): getattr(instance, field.name) for field in dataclasses.fields(instance)}


def _convert(converter: _Converter, value: Any) -> Any:
    return value if converter is None or value is None else converter(value)


def _fields(kind: Any) -> _Fields:
    hints = typing.get_type_hints(kind)
    return tuple((field.name, _column(field), _converter(hints[field.name])) for field in dataclasses.fields(kind))


def _column(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get("column", field.name))


def _converter(hint: Any) -> _Converter:
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if isinstance(hint, type) and issubclass(hint, str) and hint is not str:
        return hint
    return None
