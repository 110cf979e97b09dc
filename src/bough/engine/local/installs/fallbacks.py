"""What is missing in a build that does not come from Debian, in one sentence."""

from bough.engine.local.installs import security_fixes
from bough.engine.local.installs.installs import Flavour, Install

_SOURCES = {
    Flavour.WHEEL: "from PyPI",
    Flavour.NPM: "from npm",
    Flavour.SYSTEM: "from the packages of this machine",
}


def describe(install: Install) -> str | None:
    """Return nothing for a build from Debian."""
    if install.flavour is Flavour.DEBIAN:
        return None
    missing = f"without pgvector and other added extensions{_describe_fixes(install)}"
    return f"Postgres {install.version} comes {_SOURCES[install.flavour]}, {missing}."


def suggest(install: Install, update_command: str = "bough postgres update", *, has_mirror: bool) -> str:
    """Return how to get a better build."""
    if install.major not in security_fixes.list_majors():
        majors = " or ".join(map(str, sorted(security_fixes.list_majors())))
        return f"use Postgres {majors} for new projects, because Debian has no Postgres {install.major}"
    if has_mirror:
        return f"run `{update_command}`"
    return f"set debian_mirror to the address of a Debian mirror, then run `{update_command}`"


def _describe_fixes(install: Install) -> str:
    if install.major not in security_fixes.list_majors():
        return " and without the security fixes of newer versions"
    count = len(security_fixes.list_missing(install.version))
    return f" and without {count} known security fixes" if count else ""
