"""What the operator adds to the packages of a Postgres install."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.installs import own_packages
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.own_packages import OwnPackage
from bough.postgres.extensions import catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    requested: tuple[str, ...] = ()  # packages of Debian
    own: tuple[OwnPackage, ...] = ()

    @classmethod
    def of(cls, install: Install | None, cache: Path) -> Self:
        """Return what an install contains."""
        if install is None:
            return cls()
        own = tuple(own_packages.read(cache, each) for each in install.own)
        return cls(requested=install.requested, own=own)

    @property
    def is_any(self) -> bool:
        return bool(self.requested or self.own)

    def with_package(self, package: str) -> Self:
        return replace(self, requested=tuple(sorted({*self.requested, package})))

    def with_own(self, package: OwnPackage) -> Self:
        """Add a package in place of those that have the same extensions."""
        kept = [each for each in self.own if not {*each.extensions} & {*package.extensions}]
        return replace(self, own=tuple(sorted([*kept, package], key=lambda each: each.id)))

    def without(self, name: str, major: int) -> Self:
        """Return what remains without an extension."""
        packages = {each.package_for(major) for each in catalog.EXTENSIONS if each.name == name}
        return replace(
            self,
            requested=tuple(each for each in self.requested if each not in packages),
            own=tuple(each for each in self.own if name not in each.extensions),
        )

    def contains(self, name: str, major: int) -> bool:
        return self.without(name, major) != self

    def merged_with(self, other: "Additions") -> Self:
        merged = replace(self, requested=tuple(sorted({*self.requested, *other.requested})))
        for each in other.own:
            merged = merged.with_own(each)
        return merged

    def check_major(self, major: int) -> None:
        for each in self.own:
            if not each.supports(major):
                raise PackageError(
                    f"{each.id}, an extension of your own, was not built for Postgres {major}: remove it with "
                    f"`bough extensions remove {each.extensions[0]}`, or add a build for {major}."
                )
