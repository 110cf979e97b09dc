"""The extensions that the databases of a volume have: a file of the platform in the volume's folder.

It is written when a compute is checked, and a clone inherits it. A volume of earlier versions has none until then.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from bough.engine.local.durable_files import write_atomically

FILE = "extensions.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionRecord:
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name → versions, in all databases
    is_complete: bool = True  # False: a database could not be read, so that it may have others

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        try:
            fields = json.loads((folder / FILE).read_text())
            versions = {name: tuple(found) for name, found in fields["versions"].items()}
            return cls(versions=versions, is_complete=bool(fields["is_complete"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def of(cls, extensions: Iterable[tuple[str, str]], *, is_complete: bool) -> Self:
        versions: dict[str, set[str]] = {}
        for name, version in extensions:
            versions.setdefault(name, set()).add(version)
        return cls(versions={name: tuple(sorted(versions[name])) for name in sorted(versions)}, is_complete=is_complete)

    def with_earlier(self, earlier: Self | None) -> Self:
        """Return what is known together with an earlier record, if this one is not complete."""
        if self.is_complete or earlier is None:
            return self
        return type(self)(versions={**earlier.versions, **self.versions}, is_complete=False)

    def write(self, folder: Path) -> None:
        """Not synced: after a power failure it is an earlier one, and is soon written again."""
        write_atomically(folder / FILE, json.dumps(asdict(self)))
