"""An entry of the catalog of extensions."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryChange:
    """A text in a library that is replaced. The extension is removed from a build whose library differs."""

    library: str  # without `.so`
    pattern: bytes  # a regular expression, which must match once
    replacement: bytes  # padded with spaces to the length of the match


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    name: str  # as in CREATE EXTENSION
    summary: str
    package: str  # of Debian; `{major}` stands for the major version of Postgres
    packages_of: Mapping[int, str] = field(default_factory=dict)  # major version → a package with another name
    is_allowed: bool = True  # whether the role of a tenant can create it
    review: str  # what the review of its scripts and functions showed: why it is allowed, or why not
    majors: frozenset[int] = frozenset({15, 17, 18})  # that Debian packages it for
    is_in_default_build: bool = False  # otherwise the operator adds it
    requires: tuple[str, ...] = ()  # other extensions
    needs_superuser: bool = True  # otherwise its scripts run as the role that creates it
    schema: str | None = None  # the only schema that it can be created in
    preload_library: str | None = None  # what must be in shared_preload_libraries before CREATE EXTENSION
    settings: Mapping[str, str] = field(default_factory=dict)  # of Postgres, while the library is preloaded
    environment: Mapping[str, str] = field(default_factory=dict)  # of the server: variable → path in the build
    script_additions: Mapping[str, str] = field(default_factory=dict)  # script or pattern → statements at its end
    library_changes: tuple[LibraryChange, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)  # control file → the one that Debian installs instead
    tenant_tables: tuple[str, ...] = ()  # its tables with rows of the tenant, which a schema-only branch does not have
    output_plugin: str | None = None  # for logical decoding; an extension that is only a plugin has no control file

    @property
    def has_control_file(self) -> bool:
        return self.output_plugin is None

    def package_for(self, major: int) -> str:
        return self.packages_of.get(major, self.package).format(major=major)
