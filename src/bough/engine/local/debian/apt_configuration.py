"""What the machine's apt configuration says about mirrors, proxies and expired indexes.

Only the addresses are used, not the suites: a mirror of Debian serves every suite.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

APT = Path("/etc/apt")
_TIMEOUT_SECONDS = 10
_MAX_BYTES = 1024**2  # of a configuration file
_ADDRESS = re.compile(r"(https?|file):/\S+")
# Archives with other suites, such as those of Ubuntu, do not have Debian's packages.
_SUITE = re.compile(
    r"(old-?){0,2}stable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke"
    r"|((old-?){0,2}stable|testing|bullseye|bookworm|trixie|forky|duke)([-/](security|updates|proposed-updates))+"
)
_OPTION = re.compile(r'^(Acquire::[\w:.-]+) "(.*)";$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AptConfiguration:
    addresses: tuple[str, ...] = ()  # of mirrors, as configured
    proxies: Mapping[str, str] = field(default_factory=dict)  # by scheme
    checks_expiry: bool = True  # whether an index is refused after its Valid-Until


def read(folder: Path = APT) -> AptConfiguration:
    options = dict(_OPTION.findall(_dump_options())) if folder == APT else {}
    proxies = {scheme: options.get(f"Acquire::{scheme}::Proxy", "") for scheme in ("http", "https")}
    return AptConfiguration(
        addresses=tuple(dict.fromkeys(_find_addresses(folder))),
        proxies={scheme: proxy for scheme, proxy in proxies.items() if proxy and proxy != "DIRECT"},
        checks_expiry=options.get("Acquire::Check-Valid-Until", "true").lower() not in ("false", "no", "0", "off"),
    )


def _dump_options() -> str:
    try:
        command = ["apt-config", "dump"]
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _find_addresses(folder: Path) -> Iterator[str]:
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))):
        for line in _read_text(path).splitlines():
            yield from _parse_line(line)
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", _read_text(path)):
            yield from _parse_stanza(stanza)


def _read_text(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return ""


def _parse_line(line: str) -> Iterator[str]:
    """Parse a line of the older format: `deb [options] address suite component…`."""
    words = re.sub(r"\[[^]]*\]", " ", line.partition("#")[0]).split()
    if words[:1] == ["deb"] and len(words) > 3:
        yield from _select(words[1:2], words[2:3], words[3:])


def _parse_stanza(stanza: str) -> Iterator[str]:
    """Parse a stanza of the deb822 format."""
    lines = [line for line in stanza.splitlines() if not line.startswith("#")]
    fields = {
        name.strip().lower(): value
        for name, _, value in (text.partition(":") for text in re.split(r"\n(?=\S)", "\n".join(lines)))
    }
    words = {name: fields.get(name, "").split() for name in ("types", "uris", "suites", "components", "enabled")}
    if "deb" in words["types"] and words["enabled"] != ["no"]:
        yield from _select(words["uris"], words["suites"], words["components"])


def _select(addresses: Iterable[str], suites: Iterable[str], components: Iterable[str]) -> Iterator[str]:
    if "main" in components and any(_SUITE.fullmatch(suite) for suite in suites):
        yield from (address.rstrip("/") for address in addresses if _ADDRESS.fullmatch(address))
