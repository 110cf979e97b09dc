"""Which packages of Debian a Postgres install consists of."""

from collections.abc import Iterable

from bough.engine.local.debian import closure
from bough.engine.local.debian.package_index import Package, PackageIndex
from bough.postgres.extensions import catalog

# The release of Debian that maintains the major version.
RELEASES = {15: "bookworm", 17: "trixie", 18: "forky"}

# Not needed by a server that the platform starts itself: helpers for administrators, translations, JIT (31 MB),
# interpreters that only scripts beside the server use, and libraries that only refused extensions use (GDAL needs 90
# packages). Time zones come from the machine, where Debian's Postgres expects them.
_OMITTED = frozenset(
    [
        "adduser",
        "debconf",
        "dpkg",
        "libgdal32",
        "libgdal36",
        "libgdal39",
        "libjson-perl",
        "libllvm14",
        "libllvm19",
        "libllvm21",
        "libsfcgal1",
        "libsfcgal2",
        "locales",
        "locales-all",
        "lsb-base",
        "mawk",
        "netbase",
        "perl",
        "perl-base",
        "postgresql-client-common",
        "postgresql-common",
        "python3",
        "python3-psycopg2",
        "ssl-cert",
        "sysvinit-utils",
        "tar",
        "tzdata",
        "ucf",
    ]
)


def lock_name(major: int) -> str:
    return f"postgres-{major}"


def resolve(index: PackageIndex, major: int, extra: Iterable[str] = (), depends: Iterable[str] = ()) -> list[Package]:
    """Return the packages of the default install, with additional ones and what they depend on."""
    available = (name for name in catalog.list_default_packages(major) if index.find(name))
    names = [f"postgresql-{major}", *available, *extra]
    omitted = _OMITTED | {f"postgresql-{major}-jit", f"postgresql-{major}-jit-llvm"}
    return closure.resolve(index, names, omitted, depends)
