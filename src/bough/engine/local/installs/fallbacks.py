"""What a build lacks, in one sentence: extensions if it does not come from Debian, and security fixes."""

from bough.engine.local.installs import security_fixes
from bough.engine.local.installs.build_record import RECIPE
from bough.engine.local.installs.installs import Flavour, Install

_SOURCES = {
    Flavour.DEBIAN: "from Debian",
    Flavour.WHEEL: "from PyPI",
    Flavour.NPM: "from npm",
    Flavour.SYSTEM: "from the packages of this machine",
}


def describe(install: Install) -> str | None:
    """Return nothing for a build from Debian with all security fixes and restrictions."""
    missing = ["pgvector and other added extensions"] if install.flavour is not Flavour.DEBIAN else []
    missing += _list_missing_security(install)
    if not missing:
        return None
    return f"Postgres {install.version} comes {_SOURCES[install.flavour]}, without {' and without '.join(missing)}."


def explain_vulnerable(pin: str, install: Install) -> str | None:
    """Return what it lacks and what to do; nothing for a build with all security fixes."""
    problem = describe(install) if _list_missing_security(install) else None
    return problem and f"{pin}: {problem} To fix it, {suggest(install, has_mirror=True)}."


def suggest(install: Install, update_command: str = "bough postgres update", *, has_mirror: bool) -> str:
    """Return how to get a better build."""
    if install.flavour is Flavour.SYSTEM:
        return f"update the machine's packages of Postgres {install.major}, then restart its computes"
    if install.major not in security_fixes.list_majors():
        majors = " or ".join(map(str, sorted(security_fixes.list_majors())))
        return f"use Postgres {majors} for new projects, because Debian has no Postgres {install.major}"
    if install.flavour is Flavour.DEBIAN and security_fixes.describe_missing(install.version):
        return f"run `{update_command}`, and again later if Debian has no newer version yet"
    if has_mirror or install.flavour is Flavour.DEBIAN:
        return f"run `{update_command}`"
    return f"set debian_mirror to the address of a Debian mirror, then run `{update_command}`"


def _list_missing_security(install: Install) -> list[str]:
    missing = [security_fixes.describe_missing(install.version)]
    if install.flavour is Flavour.DEBIAN and install.recipe < RECIPE:
        missing.append("the restrictions on extensions that this version of Bough has")
    return [each for each in missing if each]
