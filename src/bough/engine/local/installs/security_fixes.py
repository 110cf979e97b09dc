"""The security fixes that this version of Bough knows of, by the minor version of Postgres that brought them.

`lock_update.py` writes the list from the changelogs of Debian, which has the versions 15, 17 and 18.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

FILE = "security-fixes.txt"
# The minor versions with all fixes of November 2026, also of versions that Debian does not have, or not yet.
_FIXED_MINORS = {15: 20, 16: 16, 17: 12, 18: 7}
_UNMAINTAINED = frozenset({14})
_PACKAGE = "bough.engine.local.installs.generated"


def list_missing(version: str) -> tuple[str, ...]:
    """Return the known vulnerabilities that later minor versions than this one fix."""
    major = version.partition(".")[0]
    return list_after(version, {each: fixes for each, fixes in _read().items() if each.partition(".")[0] == major})


def describe_missing(version: str) -> str | None:
    """Return what a version such as 17.10 lacks, such as "75 known security fixes"; None if it has all fixes."""
    major, minor = _parse_version(version)
    if major in _UNMAINTAINED:
        return f"security fixes, because Postgres {major} is no longer maintained"
    if known := list_missing(version):
        return f"{len(known)} known security fixes"
    fixed = _FIXED_MINORS.get(major, 0)
    return f"the security fixes of {major}.{fixed}" if minor < fixed else None


def list_majors() -> set[int]:
    """Return the major versions that Debian has."""
    return {int(version.partition(".")[0]) for version in _read()}


def list_after(version: str, fixes: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    newer = [found for each, found in fixes.items() if _parse_version(each) > _parse_version(version)]
    return sort(cve for found in newer for cve in found)


def sort(cves: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(cves), key=lambda cve: [int(number) for number in cve.split("-")[1:]]))


def format_file(fixes: Mapping[str, Iterable[str]]) -> str:
    ordered = sorted(fixes, key=_parse_version)
    return "".join(f"{' '.join([version, *fixes[version]])}\n" for version in ordered if fixes[version])


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


@cache
def _read() -> Mapping[str, tuple[str, ...]]:
    lines = (line.split() for line in (resources.files(_PACKAGE) / FILE).read_text().splitlines())
    return {version: tuple(cves) for version, *cves in lines}
