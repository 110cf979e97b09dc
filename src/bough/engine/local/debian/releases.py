"""The signed index of a suite: which files it consists of, and their hashes."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from bough import clock
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import ExpectedFile

_FILE = re.compile(r"^ ([0-9a-f]{64}) +([0-9]{1,15}) (\S+)$", re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z-]+): *(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    suite: str
    files: dict[str, ExpectedFile]  # by path below the suite

    def find_file(self, path: str) -> ExpectedFile:
        if path not in self.files:
            raise PackageError(f"Debian's suite {self.suite} has no {path}.")
        return self.files[path]


def index_path(suite: str) -> str:
    return f"dists/{suite}/InRelease"


def parse(content: bytes, suite: str, *, checks_expiry: bool) -> Release:
    """Parse a text whose signature was verified. Another suite, or an old index, may be a replay."""
    text = content.decode(errors="replace")
    head, _, hashes = text.partition("\nSHA256:")
    fields = dict(_FIELD.findall(head))
    if suite not in (fields.get("Codename"), fields.get("Suite")) or fields.get("Origin") != "Debian":
        raise PackageError(
            f"The mirror's index of {suite} belongs to {fields.get('Origin')} {fields.get('Codename')}: it is not used."
        )
    if checks_expiry:
        _check_expiry(fields, suite)
    folder = f"dists/{suite}"
    files = {
        path: ExpectedFile(path=f"{folder}/{path}", size=int(size), sha256=sha256)
        for sha256, size, path in _FILE.findall(hashes)
    }
    return Release(suite=suite, files=files)


def _check_expiry(fields: dict[str, str], suite: str) -> None:
    valid_until = fields.get("Valid-Until")
    if valid_until is None:
        return
    try:
        expiry = parsedate_to_datetime(valid_until).replace(tzinfo=UTC)
    except ValueError:
        expiry = datetime.min.replace(tzinfo=UTC)
    if clock.now() > expiry:
        raise PackageError(
            f"The mirror's index of {suite} expired ({valid_until}), so it is not used. Check the clock of this "
            "machine, or set debian_mirror to a mirror that is up to date, and try again."
        )
