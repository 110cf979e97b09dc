"""Copies of a Postgres build with another version, whose server starts or does not."""

import subprocess
from dataclasses import replace
from pathlib import Path

from bough.config import Settings
from bough.engine.local.installs import installs, selection
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Install

MESSAGE = "this server is broken"
_SCRIPT = f"#!/bin/sh\necho '{MESSAGE}' >&2\nexit 1\n"
# It describes its parameters, but does not start.
_PARTLY = f"""#!/bin/sh
case $1 in --*) exec "$0.whole" "$@";; esac
echo '{MESSAGE}' >&2
exit 1
"""


def add_copy(cache: Path, install: Install, version: str, *, is_broken: bool, has_template: bool = True) -> Install:
    """Add a copy of a build of Debian's that says that it has another version. With `has_template` it needs no initdb
    of its own.
    """
    source = cache / "postgres" / install.id
    folder = source.with_name(f"debian-{version}-copy")
    subprocess.run(["cp", "-al", str(source), str(folder)], check=True)
    record = BuildRecord.read(folder)
    assert record is not None
    replace(record.moved_to(folder), template=install.template_name if has_template else None).write(folder)
    if is_broken:
        break_server(folder / record.bin / "postgres", _PARTLY if has_template else _SCRIPT)
    found = installs.read_install(folder)
    assert found is not None
    return found


def break_server(server: Path, script: str) -> None:
    """Replace the file, which other copies share."""
    server.rename(f"{server}.whole")
    server.write_text(script)
    server.chmod(0o755)


def select_build(settings: Settings, install: Install) -> None:
    """Do what `bough postgres update` does when it has built an install."""
    entries = selection.read(settings.home)
    changed = {
        pin: entry.replaced_by(install.id) for pin, entry in entries.items() if pin.endswith(f"-{install.major}")
    }
    selection.write(settings.home, entries | changed)
