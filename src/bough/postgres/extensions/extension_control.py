"""Parse the control file of an extension."""

import re
from dataclasses import dataclass

_LINE = re.compile(r"^\s*(?P<name>\w+)\s*=\s*(?:'(?P<quoted>(?:[^']|'')*)'|(?P<plain>[^\s#']+))", re.MULTILINE)
_TRUE = frozenset(["true", "on", "yes", "1", "t", "y"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionControl:
    default_version: str
    comment: str
    is_trusted: bool
    needs_superuser: bool
    requires: tuple[str, ...]
    directory: str  # of its scripts, relative to the parent of the control file's folder; "" is this folder

    @property
    def is_creatable(self) -> bool:
        """Whether a role that can create objects in the database can create the extension."""
        return self.is_trusted or not self.needs_superuser


def parse(text: str) -> ExtensionControl:
    values = {
        each["name"].lower(): each["plain"] if each["quoted"] is None else each["quoted"].replace("''", "'")
        for each in _LINE.finditer(text)
    }
    return ExtensionControl(
        default_version=values.get("default_version", ""),
        comment=values.get("comment", ""),
        is_trusted=values.get("trusted", "false").lower() in _TRUE,
        needs_superuser=values.get("superuser", "true").lower() in _TRUE,
        requires=tuple(name for each in values.get("requires", "").split(",") if (name := each.strip())),
        directory=values.get("directory", ""),
    )
