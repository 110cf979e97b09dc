"""Build a Postgres install from Debian's packages: those of the lock, or the newest ones of a mirror."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bough import clock
from bough.engine.local.debian import architecture as architectures
from bough.engine.local.debian import indexes
from bough.engine.local.debian.architecture import Architecture
from bough.engine.local.debian.errors import FileMissing, PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.debian.versions import DebianVersion
from bough.engine.local.installs import (
    catalog_policy,
    debian_packages,
    debian_tree,
    extension_policy,
    locks,
    openssl_conf,
    package_cache,
    server_trial,
    staging,
)
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Install, installs_folder, read_install
from bough.engine.local.installs.locks import LockedPackage
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError

_RECIPE = 1  # raised when this program makes something else of the same packages
DOWNLOADS = "downloads"  # folder of the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """The packages of an install."""

    major: int
    packages: tuple[LockedPackage, ...]
    requested: tuple[str, ...] = ()  # those that the operator added

    @property
    def id(self) -> str:
        """The version of the server, and a digest of everything else that the install consists of."""
        server = next(each for each in self.packages if each.name == f"postgresql-{self.major}")
        names = [f"{each.name} {each.version}" for each in self.packages]
        content = "\n".join([*names, extension_policy.digest(), str(_RECIPE)])
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        return f"debian-{DebianVersion(server.version).without_epoch}-{digest}"


def plan_locked(major: int, architecture: Architecture) -> BuildPlan:
    """Plan the install that this version of Bough was released with."""
    return BuildPlan(major=major, packages=locks.read(debian_packages.lock_name(major), architecture.name))


def find_locked(major: int, cache: Path) -> Install | None:
    """Return the locked install if the cache contains it."""
    plan = plan_locked(major, architectures.find_architecture())
    return read_install(installs_folder(cache) / plan.id) if plan.packages else None


def plan_newest(
    major: int, mirrors: Mirrors, requested: Sequence[str] = (), progress: Progress = ignore_progress
) -> BuildPlan:
    """Plan an install with the newest packages of the mirrors, which are never older than the locked ones."""
    architecture = architectures.find_architecture()
    suites = list(indexes.list_suites(debian_packages.RELEASES[major]))
    index = indexes.read_index(mirrors, suites, architecture, progress)
    packages = locks.from_packages(debian_packages.resolve(index, major, requested))
    plan = BuildPlan(major=major, packages=packages, requested=tuple(requested))
    check_not_older(plan, {each.name: each.version for each in plan_locked(major, architecture).packages})
    return plan


def build_default(major: int, mirrors: Mirrors, cache: Path, progress: Progress = ignore_progress) -> Install:
    """Build the locked install, or one with the newest packages when the mirrors have no longer the locked ones."""
    locked = plan_locked(major, architectures.find_architecture())
    if locked.packages:
        try:
            return build(locked, mirrors, cache, progress)
        except FileMissing:
            pass
    return build(plan_newest(major, mirrors, (), progress), mirrors, cache, progress)


def build(plan: BuildPlan, mirrors: Mirrors, cache: Path, progress: Progress = ignore_progress) -> Install:
    """Return the install with exactly these packages. Create it if the cache does not contain it."""
    with staging.hold_cache(cache) as parent:
        folder = parent / plan.id
        if read_install(folder) is None:
            files = package_cache.download(
                mirrors, plan.packages, cache / DOWNLOADS, f"downloading Postgres {plan.major}", progress
            )
            with staging.stage_install(folder) as staged:
                _create(plan, files, staged / "tree", folder, progress)
            _complete(plan, folder)
            shutil.rmtree(cache / DOWNLOADS, ignore_errors=True)
        return staging.require_install(folder)


def _create(plan: BuildPlan, files: Sequence[Path], tree: Path, final: Path, progress: Progress) -> None:
    debian_tree.unpack(files, tree, plan.major, progress)
    debian_tree.adapt(tree, final, plan.major)
    extension_policy.apply(debian_tree.extension_folder(tree, plan.major), debian_tree.library_folder(tree, plan.major))


def _complete(plan: BuildPlan, folder: Path) -> None:
    """Write the record, without which the install is not used, when the server runs at its final path."""
    programs = debian_tree.program_folder(folder, plan.major)
    try:
        server_trial.check_runs(programs / "postgres", plan.major, f"Debian's Postgres {plan.major}")
    except EngineError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    BuildRecord(
        path=str(folder),
        bin=str(programs.relative_to(folder)),
        created_at=clock.now().isoformat(),
        packages={each.name: each.version for each in plan.packages},
        requested=plan.requested,
        openssl_conf=openssl_conf.FILE,
        environment=dict(catalog_policy.list_environment(debian_tree.extension_folder(folder, plan.major), folder)),
    ).write(folder)


def check_not_older(plan: BuildPlan, known: Mapping[str, str]) -> None:
    """An index without an expiry date could be an old one with known vulnerabilities. `known` is name → version."""
    for each in plan.packages:
        if each.name in known and DebianVersion(each.version) < DebianVersion(known[each.name]):
            raise PackageError(
                f"The mirror offers {each.name} {each.version}, which is older than {known[each.name]}, so it is "
                "not used. Set debian_mirror to a mirror that is up to date, and try again."
            )
