"""Apply the catalog of extensions to an install: which of them a tenant may create."""

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from bough.engine.local.durable_files import write_atomically
from bough.engine.local.installs import catalog_policy
from bough.postgres.extensions import catalog, contrib, extension_files, extension_scripts

_LIBRARY = re.compile(r"^module_pathname\s*=\s*'\$libdir/([\w.-]+)'", re.MULTILINE)


def apply(extensions: Path, libraries: Path, own: Collection[str] = ()) -> None:
    """Let tenants create the allowed extensions, and remove all others with their libraries.

    The operator decided on `own` extensions, which are allowed whatever the catalog says.
    """
    complete_scripts(extensions)
    catalog_policy.prepare(extensions, libraries)
    texts = {path.stem: path.read_text(errors="replace") for path in extensions.glob("*.control")}
    allowed = contrib.TRUSTED | {each.name for each in catalog.EXTENSIONS if each.is_allowed} | set(own)
    for name in allowed & texts.keys():
        catalog_policy.write_control_file(extensions / f"{name}.control")
    removed = texts.keys() - allowed - contrib.SUPERUSER_ONLY
    for name in removed:
        for path in [extensions / f"{name}.control", *extensions.glob(f"{name}--*.sql")]:
            path.unlink()
    used = {library for name in texts.keys() - removed for library in _LIBRARY.findall(texts[name])}
    for library in {library for name in removed for library in _LIBRARY.findall(texts[name])} - used:
        (libraries / f"{library}.so").unlink(missing_ok=True)
    catalog_policy.complete(extensions, libraries)
    catalog_policy.complete_own(own, extensions)


def digest() -> str:
    """Return a text that changes with the policy."""
    samples = "create type t", "select f()"
    checks = [extension_scripts.add_checks(text, each, creates=True) for each in catalog.EXTENSIONS for text in samples]
    content = repr((sorted(contrib.TRUSTED), sorted(contrib.SCRIPT_ADDITIONS.items()), catalog.EXTENSIONS, checks))
    return hashlib.sha256(content.encode()).hexdigest()


def complete_scripts(extensions: Path) -> None:
    """Apply additions to extension scripts, also in an install that an earlier version created."""
    for name in contrib.SCRIPT_ADDITIONS:
        path = extensions / name
        text = path.read_text() if path.exists() else ""
        extended = extension_files.extend_script(text, contrib.SCRIPT_ADDITIONS[name])
        if text and extended != text:
            write_atomically(path, extended, mode=0o644, durable=True)
