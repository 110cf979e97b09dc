"""Mounts a file as a file system through a loop device, which the kernel detaches after the unmount.

It runs the programs of util-linux; no request waits for it.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bough import clock

# A fixed PATH, so that administration programs are found, and English output, which is shown to users.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
_BUSY = "busy"  # in the output of `umount`
_BUSY_TIMEOUT_SECONDS = 5.0
_RETRY_SECONDS = 0.05


class CommandFailed(Exception):
    """A program failed; the text is the last line of its output."""


def run_command(*command: str | Path) -> str:
    """Return what the program printed."""
    try:
        result = subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        raise CommandFailed(f"the program {command[0]} is missing") from None
    if result.returncode != 0:
        raise CommandFailed(
            _last_line(result.stderr or result.stdout) or f"{command[0]} exits with {result.returncode}"
        )
    return result.stdout.decode(errors="replace").strip()


def mount(file: Path, mount_point: Path, fs: str, options: Sequence[str]) -> None:
    device = _attach(file)
    try:
        run_command("mount", "-t", fs, "-o", ",".join(options), device, mount_point)
    finally:
        # While it is mounted, this only makes the kernel detach it at the unmount.
        run_command("losetup", "--detach", device)


def check_attachable(file: Path) -> None:
    """Check that the file can be attached to a loop device."""
    run_command("losetup", "--detach", _attach(file))


def unmount(mount_point: Path) -> None:
    """Wait a short while for processes that are about to exit."""
    deadline = clock.monotonic() + _BUSY_TIMEOUT_SECONDS
    while True:
        try:
            run_command("umount", mount_point)
        except CommandFailed as error:
            if _BUSY not in str(error) or clock.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def detach_all(file: Path) -> None:
    """Detach devices that a crash left attached to the file."""
    for device in run_command("losetup", "--noheadings", "--output", "NAME", "--associated", file).split():
        run_command("losetup", "--detach", device)


def find_backing_file(mount_point: Path) -> Path | None:
    """Return the resolved path of the file that is mounted there; None if it is not a loop device."""
    try:
        device = run_command(
            "findmnt", "--noheadings", "--first-only", "--output", "SOURCE", "--mountpoint", mount_point
        )
        backing = Path("/sys/block", Path(device).name, "loop", "backing_file").read_text()
    except (CommandFailed, OSError):
        return None
    return Path(backing.rstrip("\n").removesuffix(" (deleted)"))


def disable_discard(mount_point: Path) -> None:
    """Keep the file system of a mounted file from returning disk space below it, also when `fstrim` asks it to."""
    device = mount_point.stat().st_dev
    queue = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue")
    with suppress(OSError):
        (queue / "discard_max_bytes").write_text("0")


def find_file_system(path: Path) -> str:
    """Return the type of the file system that the path is on; empty if it is unknown."""
    try:
        return run_command("findmnt", "--noheadings", "--first-only", "--output", "FSTYPE", "--target", path)
    except CommandFailed:
        return ""


def _attach(file: Path) -> str:
    """Return the loop device of the file, an existing one if there is any: two devices would corrupt it.

    Direct I/O keeps the data from being cached twice, also in the page cache of the file system below. Not every file
    system below supports it.
    """
    attach = ("losetup", "--find", "--show", "--nooverlap")
    try:
        return run_command(*attach, "--direct-io=on", file)
    except CommandFailed:
        return run_command(*attach, file)


def _last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    # `mount` prints a hint at dmesg after the line with the error.
    relevant = [line for line in lines if not line.startswith("dmesg(1)")]
    return relevant[-1].rstrip(".") if relevant else ""
