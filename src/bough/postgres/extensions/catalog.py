"""All extensions that do not come with Postgres itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bough.postgres.extensions.extension import Extension
from bough.postgres.extensions.vector import VECTOR

EXTENSIONS: tuple[Extension, ...] = (VECTOR,)


def find(name: str) -> Extension | None:
    return next((each for each in EXTENSIONS if each.name == name), None)


def list_default_packages(major: int) -> Iterator[str]:
    """Yield the packages of the extensions in the default build."""
    for each in EXTENSIONS:
        if each.is_in_default_build:
            yield each.package_for(major)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadableLibrary:
    library: str
    summary: str
    settings: Mapping[str, str] = field(default_factory=dict)  # of Postgres, while it is preloaded
    extension: Extension | None = None  # None: it comes with Postgres

    def is_available(self, major: int) -> bool:
        return self.extension is None or major in self.extension.majors


PRELOADABLE: tuple[PreloadableLibrary, ...] = (
    PreloadableLibrary(library="auto_explain", summary="logs the plans of slow statements"),
    PreloadableLibrary(library="pg_prewarm", summary="loads the cached pages again after a restart"),
    PreloadableLibrary(library="pg_stat_statements", summary="counts statements and their times"),
    *(
        PreloadableLibrary(library=each.preload_library, summary=each.summary, settings=each.settings, extension=each)
        for each in EXTENSIONS
        if each.preload_library is not None and each.is_allowed
    ),
)
