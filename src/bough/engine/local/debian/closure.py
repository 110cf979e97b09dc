"""The packages that a package needs to run."""

import re
from collections.abc import Iterable, Mapping

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.package_index import Package, PackageIndex
from bough.engine.local.debian.versions import DebianVersion

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
_VERSIONED = re.compile(r"([a-z0-9][a-z0-9+.-]*)(?::[a-z0-9]+)? \((=|>=|>>) ([^)]+)\)")


def resolve(
    index: PackageIndex, names: Iterable[str], omitted: frozenset[str], depends: Iterable[str] = ()
) -> list[Package]:
    """Return the packages and all that they depend on, sorted by name. `depends` are fields of further packages.

    Of alternatives, the first that exists and is not omitted counts. An omitted package is left out with what only it
    needs.
    """
    selected: dict[str, Package] = {}
    waiting = [(name, "") for name in names]
    waiting += [(name, "an extension of your own") for each in depends for name in _list_names(each, index, omitted)]
    while waiting:
        name, needed_by = waiting.pop()
        package = index.find(name)
        if package is None:
            raise PackageError(_describe_missing(name, needed_by))
        if package.name in selected or package.name in omitted:
            continue
        selected[package.name] = package
        waiting += [(each, package.name) for each in _list_names(package.depends, index, omitted)]
    return [selected[name] for name in sorted(selected)]


def list_sufficient(packages: Iterable[Package], versions: Mapping[str, str]) -> set[str]:
    """Return which of the packages can have these versions instead, as far as the others name a version they need."""
    packages, kept = list(packages), set(versions)
    while True:
        others = [each for each in packages if each.name not in kept or each.version == versions[each.name]]
        insufficient = {
            name
            for package in others
            for name, relation, needed in _VERSIONED.findall(package.depends)
            if name in kept and not _is_sufficient(versions[name], relation, needed)
        }
        if not insufficient:
            return kept
        kept -= insufficient


def _is_sufficient(version: str, relation: str, needed: str) -> bool:
    found, wanted = DebianVersion(version), DebianVersion(needed)
    return found == wanted if relation == "=" else not found < wanted


def _list_names(depends: str, index: PackageIndex, omitted: frozenset[str]) -> list[str]:
    names = []
    for alternatives in depends.split(","):
        candidates = [found[0] for each in alternatives.split("|") if (found := _NAME.match(each.strip()))]
        if candidates and omitted.isdisjoint(candidates):
            names.append(next((each for each in candidates if index.find(each)), candidates[0]))
    return names


def _describe_missing(name: str, needed_by: str) -> str:
    reason = f", which {needed_by} needs" if needed_by else ""
    return f"Debian's mirror has no package {name}{reason}."
