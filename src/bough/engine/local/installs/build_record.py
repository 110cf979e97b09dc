"""The record of an install: what it consists of. It is written last, so an install without it is incomplete."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Self

from bough.engine.local.durable_files import write_atomically

FILE = "build.json"
# Raised when this program makes something else of the same packages. A build with a lower number is named as unsafe.
RECIPE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    path: str  # of the install, which its programs may contain
    bin: str  # folder of its programs, below the path
    created_at: str  # ISO 8601
    packages: Mapping[str, str] = field(default_factory=dict)  # name → version
    requested: tuple[str, ...] = ()  # packages that the operator added to the default ones
    own: tuple[str, ...] = ()  # digests of the operator's own packages
    template: str | None = None  # the install whose template it uses; None: a template of its own
    openssl_conf: str | None = None  # below the path
    environment: Mapping[str, str] = field(default_factory=dict)  # variable → path below the path
    recipe: int = RECIPE

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        try:
            stored = {"recipe": 1, **json.loads((folder / FILE).read_text())}
            values = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
            return cls(
                **{**values, "requested": tuple(values.get("requested", ())), "own": tuple(values.get("own", ()))}
            )
        except (OSError, ValueError, TypeError):
            return None

    def moved_to(self, folder: Path) -> Self:
        return replace(self, path=str(folder))

    def write(self, folder: Path) -> None:
        write_atomically(folder / FILE, json.dumps(asdict(self), indent=1) + "\n", mode=0o644, durable=True)
