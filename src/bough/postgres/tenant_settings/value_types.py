"""Types of setting values, parsed as Postgres parses them.

Postgres accepts more: octal and hexadecimal numbers, whose leading zeros are easy to misread, and exponents of three
digits. Everything that is accepted here is accepted by Postgres.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

_NUMBER = re.compile(
    r" *(?P<number>[+-]?(?:(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{0,29})?|\.[0-9]{1,29})(?:[eE][+-]?[0-9]{1,2})?)"
)
_UNIT = re.compile(r" *(?P<unit>[A-Za-z]*) *")
_FLAG = re.compile(r"on|off?|t(r(ue?)?)?|f(a(l(se?)?)?)?|y(es?)?|no?|1|0", re.IGNORECASE)

Unit = Literal["", "B", "kB", "8kB", "MB", "ms", "s"]

# From large to small: a fraction of a unit is rounded to a whole number of the next smaller unit.
_SIZES = {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "kB": 1 << 10, "B": 1}
_TIMES = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_BASES: dict[str, tuple[dict[str, int], int]] = {
    "B": (_SIZES, 1),
    "kB": (_SIZES, 1 << 10),
    "8kB": (_SIZES, 1 << 13),
    "MB": (_SIZES, 1 << 20),
    "ms": (_TIMES, 1_000),
    "s": (_TIMES, 1_000_000),
}


class ValueType(Protocol):
    vartype: ClassVar[str]  # as in `pg_settings`

    @property
    def hint(self) -> str:
        """Describes the allowed values for an error message."""

    def accepts(self, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class BoolType:
    vartype: ClassVar[str] = "bool"
    hint: ClassVar[str] = "on or off"

    def accepts(self, text: str) -> bool:
        return _FLAG.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class EnumType:
    vartype: ClassVar[str] = "enum"
    values: tuple[str, ...]

    @property
    def hint(self) -> str:
        return f"one of {', '.join(self.values)}"

    def accepts(self, text: str) -> bool:
        return text.lower() in self.values


@dataclass(frozen=True, slots=True)
class PatternType:
    vartype: ClassVar[str] = "string"
    form: re.Pattern[str]
    hint: str

    def accepts(self, text: str) -> bool:
        return self.form.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ListedType:
    """A value from a long list, in any case."""

    vartype: ClassVar[str] = "string"
    values: frozenset[str]
    hint: str

    def accepts(self, text: str) -> bool:
        return text.lower() in self.values


@dataclass(frozen=True, slots=True, kw_only=True)
class RealType:
    """A number from `minimum` to `maximum`, the limits of Postgres; `allowed_range` is narrower."""

    minimum: float
    maximum: float
    unit: Unit = ""
    allowed_range: tuple[float, float] | None = None
    off_value: float | None = None  # a value outside the bounds that is allowed

    vartype: ClassVar[str] = "real"

    @property
    def hint(self) -> str:
        minimum, maximum = self.allowed_range or (self.minimum, self.maximum)
        off = "" if self.off_value is None else f"{self.off_value:g} or "
        limits = [f"{_format_number(limit)}{self._unit_label}" for limit in (minimum, maximum)]
        return f"{off}{self._noun} from {limits[0]} to {limits[1]}"

    def accepts(self, text: str) -> bool:
        value = self.parse(text)
        if value is None:
            return False
        minimum, maximum = self.allowed_range or (self.minimum, self.maximum)
        return minimum <= value <= maximum or value == self.off_value

    def parse(self, text: str) -> float | None:
        """Return the number in the setting's own unit, or None if it is invalid."""
        number = _NUMBER.match(text)
        unit = _UNIT.fullmatch(text, number.end()) if number else None
        if number is None or unit is None:
            return None
        value = float(number["number"])
        return value if not unit["unit"] else _converted(value, unit["unit"], self.unit)

    @property
    def _noun(self) -> str:
        return "a number"

    @property
    def _unit_label(self) -> str:
        return " pages of 8kB" if self.unit == "8kB" else self.unit


class IntegerType(RealType):
    __slots__ = ()
    vartype: ClassVar[str] = "integer"

    def parse(self, text: str) -> float | None:
        value = super().parse(text)
        return None if value is None else round(value)

    @property
    def _noun(self) -> str:
        if not self.unit:
            return "a whole number"
        return "a time in us, ms, s, min, h or d," if self.unit in ("ms", "s") else "a size in B, kB, MB, GB or TB,"


def _converted(value: float, unit: str, base_unit: Unit) -> float | None:
    """Convert to the base unit. Return None if the unit does not match."""
    units, base = _BASES.get(base_unit, ({}, 1))
    if unit not in units:
        return None
    converted = value * _factor(units[unit], base)
    names = list(units)
    if unit != names[-1]:
        smaller = _factor(units[names[names.index(unit) + 1]], base)
        converted = round(converted / smaller) * smaller
    return converted


def _factor(unit: int, base: int) -> float:
    return float(unit // base) if unit >= base else 1.0 / (base // unit)


def _format_number(number: float) -> str:
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else f"{number:g}"
