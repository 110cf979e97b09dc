"""Typed parameters of operations, and how they are stored.

Each action has one frozen subclass of `Params`, which encodes itself to the JSON of the row and back. Version 1 is
stored without a version number; later versions add the key `version`. Unknown keys are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

_VERSION = "version"


class UndecodableParams(Exception):
    """The stored parameters lack a required key, or were written by a later version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Subclasses add fields and implement `to_stored` and `from_stored`."""

    VERSION: ClassVar[int] = 1

    def encode(self) -> dict[str, Any]:
        stored = self.to_stored()
        return stored if self.VERSION == 1 else {_VERSION: self.VERSION, **stored}

    @classmethod
    def decode(cls, stored: Mapping[str, Any]) -> Self:
        version = stored.get(_VERSION, 1)
        if version > cls.VERSION:
            raise UndecodableParams(f"{cls.__name__} has version {cls.VERSION}, and the row has {version}")
        try:
            return cls.from_stored(stored, version)
        except (KeyError, TypeError, ValueError) as error:
            raise UndecodableParams(f"{cls.__name__} cannot be read from the row: {error!r}") from error

    def to_stored(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoParams(Params):
    """For actions that need only the branch or the endpoint of the row."""


def drop_none(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Absent values are not stored."""
    return {name: value for name, value in stored.items() if value is not None}
