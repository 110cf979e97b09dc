"""An entry of the catalog of extensions."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    name: str  # as in CREATE EXTENSION
    summary: str
    package: str  # of Debian; `{major}` stands for the major version of Postgres
    is_allowed: bool = True  # whether the role of a tenant can create it
    review: str  # what the review of its scripts and functions showed: why it is allowed, or why not
    majors: frozenset[int] = frozenset({15, 17, 18})  # that Debian packages it for
    is_in_default_build: bool = False  # otherwise the operator adds it
    requires: tuple[str, ...] = ()  # other extensions
    preload_library: str | None = None  # what must be in shared_preload_libraries before CREATE EXTENSION
    settings: Mapping[str, str] = field(default_factory=dict)  # of Postgres, while the library is preloaded
    environment: Mapping[str, str] = field(default_factory=dict)  # of the server; `{share}` stands for its /usr/share
    script_additions: Mapping[str, str] = field(default_factory=dict)  # statements added at the end of a script
    links: Mapping[str, str] = field(default_factory=dict)  # path → target, which the package's own script would create
    output_plugin: str | None = None  # for logical decoding

    def package_for(self, major: int) -> str:
        return self.package.format(major=major)
