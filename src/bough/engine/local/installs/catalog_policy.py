"""Adapt the files of an install's extensions to their entries in the catalog.

Files that the packages' own scripts would link get their names, libraries and scripts are changed, and checks are added
to the scripts. An extension whose library is not the expected one is removed, and so are scripts that are needed
neither to create the default version nor to update to it.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bough.engine.local.durable_files import write_atomically
from bough.postgres.extensions import catalog, extension_control, extension_files, extension_scripts
from bough.postgres.extensions.extension import Extension, LibraryChange


def prepare(extensions: Path, libraries: Path) -> None:
    """Rename control files and change libraries, before it is decided which extensions stay."""
    for control in extensions.glob("*.control"):
        _move_scripts(control)
    for path in extensions.glob("*--*unpackaged*.sql"):  # they adopt objects that anybody may have created
        path.unlink()
    for each in catalog.EXTENSIONS:
        for name, source in each.links.items():
            if (extensions / source).is_file():
                (extensions / name).unlink(missing_ok=True)
                (extensions / source).rename(extensions / name)
        control = extensions / f"{each.name}.control"
        if control.is_file() and not all(_change_library(change, libraries) for change in each.library_changes):
            control.unlink()


def write_control_file(path: Path) -> None:
    """Let the role of a tenant create the extension."""
    entry = catalog.find(path.stem)
    is_privileged = entry is None or entry.needs_superuser
    change = extension_files.mark_trusted if is_privileged else extension_files.mark_unprivileged
    write_atomically(path, change(path.read_text(errors="replace")), mode=0o644)


def complete(extensions: Path, libraries: Path) -> None:
    """Change the scripts of the extensions that stay, and create files for those of the catalog that are missing."""
    for each in catalog.EXTENSIONS:
        if (extensions / f"{each.name}.control").is_file():
            _remove_other_versions(each.name, extensions)
            _complete_scripts(each, extensions)
        else:
            has_plugin = each.output_plugin is not None and (libraries / f"{each.output_plugin}.so").is_file()
            for name, text in extension_files.build_unavailable_files(each, has_plugin=has_plugin).items():
                write_atomically(extensions / name, text, mode=0o644)


def complete_own(names: Iterable[str], extensions: Path) -> None:
    """Add checks to the scripts of extensions that are not in the catalog. They run as a superuser, too."""
    for name in names:
        if catalog.find(name) is None:
            _remove_other_versions(name, extensions)
            _complete_scripts(Extension(name=name, summary="", package="", review=""), extensions)


def list_environment(extensions: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables that the server needs, with paths below the root of the install."""
    for each in catalog.EXTENSIONS:
        control = extensions / f"{each.name}.control"
        if each.environment and control.is_file() and extension_files.is_available(control.read_text(errors="replace")):
            yield from ((name, path) for name, path in each.environment.items() if (root / path).exists())


def _move_scripts(control: Path) -> None:
    """Move the scripts of an extension beside its control file, so that they are found and checked."""
    text = control.read_text(errors="replace")
    directory = extension_control.parse(text).directory
    if not directory:
        return
    share = control.parent.parent.resolve()
    folder = (share / directory).resolve()
    if folder.is_relative_to(share):  # otherwise CREATE EXTENSION finds no script
        for script in sorted(folder.glob(f"{control.stem}--*.sql")):
            script.rename(control.parent / script.name)
    write_atomically(control, extension_files.without_directory(text), mode=0o644)


def _remove_other_versions(name: str, extensions: Path) -> None:
    """Remove the scripts that create another version than the default one, or change from it to another one.

    Scripts that update from an early version change catalogs without regard to the owner of an object. Where no script
    creates the default version, Postgres updates from the version that a script creates.
    """
    control = extension_control.parse((extensions / f"{name}.control").read_text(errors="replace"))
    default = extensions / f"{name}--{control.default_version}.sql"
    if default.is_file():
        for script in extensions.glob(f"{name}--*.sql"):
            source, _, target = script.stem.removeprefix(f"{name}--").partition("--")
            if source == control.default_version if target else script != default:
                script.unlink()


def _change_library(change: LibraryChange, libraries: Path) -> bool:
    """Return False, and remove the library, if it does not contain the text once."""
    path = libraries / f"{change.library}.so"
    content = path.read_bytes() if path.is_file() else b""
    found = list(re.finditer(change.pattern, content))
    if len(found) == 1 and len(change.replacement) <= len(found[0][0]):
        start, end = found[0].span()
        changed = content[:start] + change.replacement.ljust(end - start) + content[end:]
        path.with_suffix(".new").write_bytes(changed)
        path.with_suffix(".new").chmod(0o644)
        path.with_suffix(".new").rename(path)
        return True
    is_changed = change.replacement in content and not found
    if not is_changed:
        path.unlink(missing_ok=True)
    return is_changed


def _complete_scripts(extension: Extension, extensions: Path) -> None:
    scripts = extensions.glob(f"{extension.name}--*.sql")
    for path in sorted(each for each in scripts if not each.is_symlink()):  # PostGIS links updates to one script
        text = path.read_text(errors="replace")
        creates = path.stem.count("--") == 1
        changed = extension_scripts.add_checks(text, extension, creates=creates)
        for pattern, addition in extension.script_additions.items():
            if path.match(pattern):
                changed = extension_files.extend_script(changed, addition)
        if changed != text:
            write_atomically(path, changed, mode=0o644)
