"""Which vulnerabilities a version fixes, as the changelog of Debian's server package says."""

import gzip
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from bough.engine.local.installs import security_fixes
from bough.engine.local.installs.installs import Flavour, Install

_MAX_BYTES = 4 * 1024**2
_ENTRY = re.compile(r"^\S+ \((?:\d+:)?(\d+\.\d+)", re.MULTILINE)
_CVE = re.compile(r"CVE-\d{4}-\d{4,}")
_FIXED = re.compile(r"\(CVE-[^)]*\)|Fixes CVE-[^.]*\.")


def list_fixed_cves(before: Install | None, after: Install) -> tuple[str, ...]:
    """Return what the entries after the old version name."""
    if before is None or after.flavour is not Flavour.DEBIAN:
        return ()
    return security_fixes.list_after(before.version, read(after.root, after.major))


def read(tree: Path, major: int) -> Mapping[str, tuple[str, ...]]:
    """Return the vulnerabilities by the version of Postgres that fixes them; nothing without a changelog."""
    path = tree / "usr" / "share" / "doc" / f"postgresql-{major}" / "changelog.Debian.gz"
    try:
        with gzip.open(path, "rt", errors="replace") as file:
            return parse(file.read(_MAX_BYTES), major)
    except (OSError, EOFError):
        return {}


def parse(text: str, major: int) -> Mapping[str, tuple[str, ...]]:
    entries = list(_ENTRY.finditer(text))
    fixes: dict[str, set[str]] = {}
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        if entry[1].startswith(f"{major}."):
            content = text[entry.end() : following.start() if following else len(text)]
            fixes.setdefault(entry[1], set()).update(_find_cves(_FIXED.findall(content)))
    return {version: security_fixes.sort(found) for version, found in fixes.items()}


def _find_cves(texts: Iterable[str]) -> set[str]:
    return set(_CVE.findall(" ".join(texts)))
