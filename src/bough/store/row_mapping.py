"""From a row to a frozen domain object: columns are named like fields."""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_Converters = tuple[tuple[str, str, Callable[[Any], Any] | None], ...]  # field, column, conversion
_known: dict[type[Any], _Converters] = {}


def from_row(kind: type[T], row: Mapping[str, Any], prefix: str = "") -> T:
    """Build `kind` from its columns, which may have a prefix; ids and enums get their own types back."""
    converters = _known.get(kind)
    if converters is None:
        converters = _known[kind] = _converters(kind)
    return kind(**{name: _typed(convert, row[prefix + column]) for name, column, convert in converters})


def to_columns(instance: Any) -> dict[str, Any]:
    return {_column(field): getattr(instance, field.name) for field in dataclasses.fields(instance)}


def _typed(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _column(field: dataclasses.Field[Any]) -> str:
    """Fields are named like columns, unless their metadata says otherwise."""
    return str(field.metadata.get("column", field.name))


def _converters(kind: Any) -> _Converters:
    hints = typing.get_type_hints(kind)
    return tuple((field.name, _column(field), _converter(hints[field.name])) for field in dataclasses.fields(kind))


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if isinstance(hint, type) and issubclass(hint, str) and hint is not str:
        return hint
    return None
