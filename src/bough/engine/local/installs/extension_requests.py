"""Add extensions to the installs that a home uses, and remove them again.

Each change builds one install with all packages that are wanted, and selects it at the end; a crash before that leaves
only an install that nobody uses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bough.config import Settings
from bough.engine.local.debian.errors import FileMissing, PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_build, debian_packages, download, installs, own_packages, selection
from bough.engine.local.installs.additions import Additions
from bough.engine.local.installs.installs import Flavour, Install
from bough.engine.local.installs.update import BuildChange, Check, change, list_serving
from bough.engine.local.progress import Progress
from bough.engine.port import EngineError
from bough.ids import ProjectId
from bough.postgres.extensions import catalog, contrib
from bough.postgres.extensions.extension import Extension

Amend = Callable[[Additions, int], Additions]  # gets what is added now, and the major version of Postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    settings: Settings
    project: ProjectId | None = None  # None: all projects
    pin: str = ""  # of the project
    progress: Progress
    check: Check
    notes: list[str] = field(default_factory=list)  # sentences for the operator


def add(request: Request, name: str) -> list[BuildChange]:
    """Add an extension of the catalog. Return no change if it is there already."""
    entry = require_addable(name)
    return _change(
        request,
        f"The extension {name}",
        lambda added, major: added.with_package(entry.package_for(major)),
        entry.majors,
    )


def add_own(request: Request, path: Path) -> list[BuildChange]:
    """Add a package or a folder of the operator's own."""
    package = own_packages.store(path, request.settings.cache)
    request.notes.append(
        f"{', '.join(package.extensions)}: every role of a project can create this extension, and its script then "
        "runs as superuser. Add only what you trust."
    )
    majors = frozenset(package.majors) or frozenset(debian_packages.RELEASES)
    return _change(request, str(path), lambda added, _major: added.with_own(package), majors)


def remove(request: Request, name: str) -> list[BuildChange]:
    """Remove an extension that was added."""
    found = installs.find_installs(request.settings.cache)
    serving = _list_targets(list_serving(request.settings.home, found), request)
    cache = request.settings.cache
    with_it = {key: each for key, each in serving.items() if Additions.of(each, cache).contains(name, each.major)}
    if not with_it:
        raise EngineError(_explain_absent(name, request), transient=False)
    majors = frozenset(each.major for each in with_it.values())
    return _change(request, f"The extension {name}", lambda added, major: added.without(name, major), majors)


def require_addable(name: str) -> Extension:
    entry = catalog.find(name)
    if entry is None:
        raise EngineError(_explain_unknown(name), transient=False)
    if not entry.is_allowed:
        raise EngineError(f"{name} is not offered: {entry.review}", transient=False)
    if entry.is_in_default_build:
        raise EngineError(f"{name} is in every build from Debian's packages already: nothing to add.", transient=False)
    return entry


def _change(request: Request, what: str, amend: Amend, majors: frozenset[int]) -> list[BuildChange]:
    settings = request.settings
    with selection.hold(settings.home), Mirrors.open(settings.debian_mirror) as mirrors:
        serving = list_serving(settings.home, installs.find_installs(settings.cache))
        targets = _list_targets(serving, request)
        _check_targets(targets, what, majors, request)
        after = {
            key: _build(install, amend, mirrors, request)
            for key, install in targets.items()
            if install.flavour is Flavour.DEBIAN and install.major in majors
        }
        return change(settings.home, {**serving, **targets}, after, request.check)


def _list_targets(serving: Mapping[str, Install], request: Request) -> dict[str, Install]:
    """Return what is to be changed: the install of one project, or those of all pins and of all such projects."""
    if request.project is None:
        return {key: install for key, install in serving.items() if install.is_managed}
    key = selection.project_key(request.pin, request.project)
    install = serving.get(key) or serving.get(request.pin)
    if install is None:
        raise EngineError(f"The build {request.pin} of the project is not on this machine.", transient=False)
    return {key: install}


def _check_targets(targets: Mapping[str, Install], what: str, majors: frozenset[int], request: Request) -> None:
    others = {each.flavour for each in targets.values()} - {Flavour.DEBIAN}
    debian = {each.major for each in targets.values() if each.flavour is Flavour.DEBIAN}
    if not debian:
        raise EngineError(
            f"Extensions can be added to builds from Debian's packages, but the build in use comes from "
            f"{' and '.join(sorted(others)) or 'elsewhere'}. Set debian_mirror if this machine has no mirror of Debian "
            "in apt's configuration, run `bough postgres update`, and then this again.",
            transient=False,
        )
    if not debian & majors:
        raise EngineError(
            f"{what} is available for Postgres {_join(majors)}, but "
            f"{'the project runs' if request.project else 'this installation runs'} {_join(debian)}.",
            transient=False,
        )


def _build(install: Install, amend: Amend, mirrors: Mirrors | None, request: Request) -> Install:
    """Return an install with other additions, and with the same versions of all other packages if possible."""
    cache, major, progress = request.settings.cache, install.major, request.progress
    before = Additions.of(install, cache)
    additions = amend(before, major)
    if additions == before:
        return install
    additions.check_major(major)
    if found := debian_build.find_built(additions, install, cache):
        return found
    if mirrors is None:
        raise PackageError(f"{download.NO_MIRROR} Then run this again.")
    plan = debian_build.plan_with(additions, major, mirrors, progress, like=install)
    try:
        built = debian_build.build(plan, mirrors, cache, progress)
    except FileMissing:
        newest = debian_build.plan_with(additions, major, mirrors, progress)
        if newest == plan:
            raise
        built = debian_build.build(newest, mirrors, cache, progress)
    if built.version != install.version:
        request.notes.append(
            f"The mirror no longer has the packages of Postgres {install.version}, so this brings {built.version}."
        )
    return built


def _explain_unknown(name: str) -> str:
    if name in contrib.TRUSTED:
        return f"{name} comes with Postgres and is in every build: nothing to add."
    if name in contrib.REMOVED | contrib.SUPERUSER_ONLY:
        return f"{name} is not offered: it gives access to files of the server, or runs code outside the database."
    known = sorted(each.name for each in catalog.EXTENSIONS if each.is_allowed and not each.is_in_default_build)
    return (
        f"The catalog has no extension {name}. It has: {', '.join(known) or 'none'}. To add one of your own, give the "
        "path of its .deb or of a folder with its control file, scripts and library, such as ./my-extension."
    )


def _explain_absent(name: str, request: Request) -> str:
    entry = catalog.find(name)
    if name in contrib.TRUSTED or (entry is not None and entry.is_in_default_build):
        return f"{name} is part of the default build and cannot be removed."
    return (
        f"{name} was not added{' to this project' if request.project else ''}: `bough extensions list` shows what was."
    )


def _join(majors: frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(majors)))
