"""Which vulnerabilities an update fixes, as the changelog of Debian's server package says."""

import gzip
import re
from pathlib import Path

from bough.engine.local.installs.installs import Flavour, Install

_MAX_BYTES = 4 * 1024**2
_ENTRY = re.compile(r"^\S+ \((?:\d+:)?(\d+)\.(\d+)", re.MULTILINE)
_CVE = re.compile(r"CVE-\d{4}-\d{4,}")
_FIXED = re.compile(r"\(CVE-[^)]*\)|Fixes CVE-[^.]*\.")


def list_fixed_cves(before: Install | None, after: Install) -> tuple[str, ...]:
    """Return what the entries after the old version name."""
    if before is None or after.flavour is not Flavour.DEBIAN:
        return ()
    text = _read(after.root / "usr" / "share" / "doc" / f"postgresql-{after.major}" / "changelog.Debian.gz")
    entries = list(_ENTRY.finditer(text))
    old = _parse(before.version)
    newer = [entry.start() for entry in entries if (int(entry[1]), int(entry[2])) > old]
    older = [entry.start() for entry in entries if (int(entry[1]), int(entry[2])) <= old]
    if not newer:
        return ()
    recent = text[: min((start for start in older if start > newer[0]), default=len(text))]
    return tuple(
        sorted(
            set(_CVE.findall(" ".join(_FIXED.findall(recent)))),
            key=lambda cve: [int(number) for number in cve.split("-")[1:]],
        )
    )


def _parse(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _read(path: Path) -> str:
    try:
        with gzip.open(path, "rt", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except (OSError, EOFError):
        return ""
