"""The packages that a package needs to run."""

import re
from collections.abc import Iterable

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.package_index import Package, PackageIndex

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")


def resolve(index: PackageIndex, names: Iterable[str], omitted: frozenset[str]) -> list[Package]:
    """Return the packages and all that they depend on, sorted by name.

    Of alternatives, the first that exists and is not omitted counts. An omitted package is left out with what only it
    needs.
    """
    selected: dict[str, Package] = {}
    waiting = [(name, "") for name in names]
    while waiting:
        name, needed_by = waiting.pop()
        package = index.find(name)
        if package is None:
            raise PackageError(_describe_missing(name, needed_by))
        if package.name in selected or package.name in omitted:
            continue
        selected[package.name] = package
        waiting += [(each, package.name) for each in _list_dependencies(package, index, omitted)]
    return [selected[name] for name in sorted(selected)]


def _list_dependencies(package: Package, index: PackageIndex, omitted: frozenset[str]) -> list[str]:
    names = []
    for alternatives in package.depends.split(","):
        candidates = [found[0] for each in alternatives.split("|") if (found := _NAME.match(each.strip()))]
        if candidates and omitted.isdisjoint(candidates):
            names.append(next((each for each in candidates if index.find(each)), candidates[0]))
    return names


def _describe_missing(name: str, needed_by: str) -> str:
    reason = f", which {needed_by} needs" if needed_by else ""
    return f"Debian's mirror has no package {name}{reason}."
