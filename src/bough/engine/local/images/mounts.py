"""Files as file systems: a loop device in between, which the kernel lets go of after the unmount.

The programs of util-linux do it; none of this is on the way of a request.
"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bough import clock

# Neither our PATH nor our language: the programs of an administrator, and words we can show.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
_BUSY = "busy"  # in the words of `umount`
_ENDING_SECONDS = 5.0
_LOOK = 0.05  # seconds between tries


class CommandFailed(Exception):
    """A program said no; the text is its last line."""


def run_command(*command: str | Path) -> str:
    """What the program printed."""
    try:
        done = subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        raise CommandFailed(f"the program {command[0]} is missing") from None
    if done.returncode != 0:
        raise CommandFailed(_last_line(done.stderr or done.stdout) or f"{command[0]} exits with {done.returncode}")
    return done.stdout.decode(errors="replace").strip()


def mount(file: Path, mount_point: Path, fs: str, options: Sequence[str]) -> None:
    device = _attach(file)
    try:
        run_command("mount", "-t", fs, "-o", ",".join(options), device, mount_point)
    finally:
        # While it is mounted this only tells the kernel to let go of it at the unmount.
        run_command("losetup", "--detach", device)


def unmount(mount_point: Path) -> None:
    """Whoever is just ending may hold it for a moment, and is waited for."""
    until = clock.monotonic() + _ENDING_SECONDS
    while True:
        try:
            run_command("umount", mount_point)
        except CommandFailed as error:
            if _BUSY not in str(error) or clock.monotonic() >= until:
                raise
            time.sleep(_LOOK)
        else:
            return


def detach_all(file: Path) -> None:
    """Let go of devices that a crash left attached to the file."""
    for device in run_command("losetup", "--noheadings", "--output", "NAME", "--associated", file).split():
        run_command("losetup", "--detach", device)


def find_backing_file(mount_point: Path) -> Path | None:
    """The file, by its true path, whose file system is mounted at the place; None when that is no loop device."""
    try:
        device = run_command(
            "findmnt", "--noheadings", "--first-only", "--output", "SOURCE", "--mountpoint", mount_point
        )
        backing = Path("/sys/block", Path(device).name, "loop", "backing_file").read_text()
    except (CommandFailed, OSError):
        return None
    return Path(backing.rstrip("\n").removesuffix(" (deleted)"))


def find_file_system(path: Path) -> str:
    """The name of the file system that a path is on, as `mount` knows it; empty when that is not known."""
    try:
        return run_command("findmnt", "--noheadings", "--first-only", "--output", "FSTYPE", "--target", path)
    except CommandFailed:
        return ""


def _attach(file: Path) -> str:
    """The device of the file: two for one file would spoil it, so one that is there already is taken.

    Direct I/O keeps what is read and written out of the page cache of the file system below, where it
    would be a second time. Not every file system below can do that.
    """
    attach = ("losetup", "--find", "--show", "--nooverlap")
    try:
        return run_command(*attach, "--direct-io=on", file)
    except CommandFailed:
        return run_command(*attach, file)


def _last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    # `mount` ends with a hint at its own log, behind the line that says what is wrong.
    telling = [line for line in lines if not line.startswith("dmesg(1)")]
    return telling[-1].rstrip(".") if telling else ""
