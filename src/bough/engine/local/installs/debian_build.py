"""Build a Postgres install from Debian's packages: those of the lock, or the newest ones of a mirror."""

import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bough import clock
from bough.engine.local.debian import architecture as architectures
from bough.engine.local.debian import closure, indexes
from bough.engine.local.debian.architecture import Architecture
from bough.engine.local.debian.errors import FileMissing
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.debian.versions import DebianVersion
from bough.engine.local.installs import (
    catalog_policy,
    debian_packages,
    debian_tree,
    extension_policy,
    locks,
    openssl_conf,
    own_packages,
    package_cache,
    server_trial,
    staging,
    tree_links,
)
from bough.engine.local.installs.additions import Additions
from bough.engine.local.installs.build_record import RECIPE, BuildRecord
from bough.engine.local.installs.installs import (
    Flavour,
    Install,
    find_installs,
    format_pin,
    installs_folder,
    read_install,
)
from bough.engine.local.installs.locks import LockedPackage
from bough.engine.local.installs.own_packages import OwnPackage
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError

DOWNLOADS = "downloads"  # folder of the cache
_DECISIVE = re.compile(r"postgresql-\d+|libc6|libicu\d+")  # for what initdb creates


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """The packages of an install."""

    major: int
    packages: tuple[LockedPackage, ...]
    requested: tuple[str, ...] = ()  # those that the operator added
    own: tuple[OwnPackage, ...] = ()  # the operator's own

    @property
    def additions(self) -> Additions:
        return Additions(requested=self.requested, own=self.own)

    @property
    def id(self) -> str:
        return _compute_id(self.major, self.packages, [*self.requested, *(each.id for each in self.own)])


def _compute_id(major: int, packages: Sequence[LockedPackage], added: Iterable[str]) -> str:
    """Return the version of the server, and a digest of everything else that the install consists of."""
    server = next((each.version for each in packages if each.name == f"postgresql-{major}"), "")
    names = [f"{each.name} {each.version}" for each in packages]
    content = "\n".join([*names, *(f"+{each}" for each in added), extension_policy.digest(), str(RECIPE)])
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    return f"debian-{DebianVersion(server).without_epoch}-{digest}"


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
    return plan_with(Additions(requested=tuple(requested)), major, mirrors, progress)


def plan_with(
    additions: Additions,
    major: int,
    mirrors: Mirrors,
    progress: Progress = ignore_progress,
    *,
    like: Install | None = None,
) -> BuildPlan:
    """Plan an install with the newest packages of the mirrors, and what the operator added.

    The packages of the install `like` are kept, as far as it is known what they were and the others allow it.
    """
    architecture = architectures.find_architecture()
    suites = list(indexes.list_suites(debian_packages.RELEASES[major]))
    index = indexes.read_index(mirrors, suites, architecture, progress)
    depends = [each.depends for each in additions.own]
    resolved = debian_packages.resolve(index, major, additions.requested, depends)
    packages = locks.from_packages(resolved)
    plan = BuildPlan(major=major, packages=packages, requested=additions.requested, own=additions.own)
    locks.check_not_older(packages, {each.name: each.version for each in plan_locked(major, architecture).packages})
    if like is None:
        return plan
    known = {each.name: each for each in _list_packages(like)}
    kept = closure.list_sufficient(resolved, {name: each.version for name, each in known.items()})
    return replace(plan, packages=tuple(known[each.name] if each.name in kept else each for each in packages))


def find_built(additions: Additions, like: Install, cache: Path) -> Install | None:
    """Return an install of the cache that a plan like an install, with other additions, would lead to."""
    versions = {each.name: each.version for each in _list_packages(like)}
    own = tuple(each.id for each in additions.own)
    for found in _list_current(like.major, cache):
        is_alike = all(versions.get(each.name, each.version) == each.version for each in _list_packages(found))
        if is_alike and (found.requested, found.own) == (additions.requested, own):
            return found
    return None


def _find_base(plan: BuildPlan, cache: Path) -> Install | None:
    """Return an install that consists of packages of the plan, as many as possible."""
    own = {each.id for each in plan.own}
    found = [
        each
        for each in _list_current(plan.major, cache)
        if {*_list_packages(each)} <= {*plan.packages} and {*each.own} <= own
    ]
    return max(found, key=lambda each: len(_list_packages(each)), default=None)


def _list_current(major: int, cache: Path) -> Iterator[Install]:
    """Yield the installs that this version of Bough would create in the same way."""
    for found in find_installs(cache).values():
        packages = _list_packages(found) if found.pin == format_pin(Flavour.DEBIAN, major) else ()
        if packages and _compute_id(major, packages, [*found.requested, *found.own]) == found.id:
            yield found


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
            base = _find_base(plan, cache)
            present = _list_packages(base) if base else ()
            missing = [each for each in plan.packages if each not in present]
            stage = f"downloading Postgres {plan.major}"
            files = package_cache.download(mirrors, missing, cache / DOWNLOADS, stage, progress)
            with staging.stage_install(folder) as staged:
                if base is not None:
                    tree_links.link_tree(base.root, staged / "tree", base.extensions)
                _create(plan, files, staged / "tree", folder, progress)
                _add_own(plan, cache, staged / "tree")
            _complete(plan, folder)
            shutil.rmtree(cache / DOWNLOADS, ignore_errors=True)
        return staging.require_install(folder)


def _create(plan: BuildPlan, files: Sequence[Path], tree: Path, final: Path, progress: Progress) -> None:
    debian_tree.unpack(files, tree, plan.major, progress)
    debian_tree.adapt(tree, final, plan.major)
    (tree / locks.INSTALL_FILE).write_text(locks.format_lock(plan.packages))


def _add_own(plan: BuildPlan, cache: Path, tree: Path) -> None:
    folders = debian_tree.extension_folder(tree, plan.major), debian_tree.library_folder(tree, plan.major)
    own_packages.add_to_tree(plan.own, cache, plan.major, *folders)
    extension_policy.apply(*folders, own={name for each in plan.own for name in each.extensions})


def _list_packages(install: Install) -> tuple[LockedPackage, ...]:
    """Return the packages of an install. Those of earlier versions of Bough are known if they are the locked ones."""
    try:
        return locks.parse((install.root / locks.INSTALL_FILE).read_text())
    except FileNotFoundError:
        record = BuildRecord.read(install.root)
        packages = record.packages if record else {}
        locked = plan_locked(install.major, architectures.find_architecture()).packages
        return tuple(each for each in locked if packages.get(each.name) == each.version)


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
        own=tuple(each.id for each in plan.own),
        template=_find_template(plan, folder.parent) if plan.additions.is_any else None,
        openssl_conf=openssl_conf.FILE,
        environment=dict(catalog_policy.list_environment(debian_tree.extension_folder(folder, plan.major), folder)),
    ).write(folder)


def _find_template(plan: BuildPlan, parent: Path) -> str | None:
    """Return an install that initdb creates the same data directory with: its server and libraries are the same."""
    decisive = {each.name: each.version for each in plan.packages if _DECISIVE.fullmatch(each.name)}
    for folder in sorted(parent.glob(f"debian-{plan.major}.*")):
        record = BuildRecord.read(folder)
        if record and decisive == {
            name: record.packages[name] for name in record.packages if _DECISIVE.fullmatch(name)
        }:
            return record.template or folder.name
    return None
