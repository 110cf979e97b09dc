"""Files that code running as a project's user can put into the project's folders, created by a process of that user."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.attacker import find_interpreter

SPARSE = 1_500_000_000  # bytes; none of them takes disk space

KINDS = ("link to a sparse file", "link to a pipe", "pipe", "socket", "folder", "huge file", "empty file")


def plant_file(kind: str, path: Path, uid: int) -> None:
    """Replaces whatever exists at the path."""
    target = path.with_name(f"{path.name}.aim")
    scripts = {
        "link to a sparse file": 'truncate -s "$3" "$2" && ln -s "$2" "$1"',
        "link to a pipe": 'mkfifo "$2" && ln -s "$2" "$1"',
        "pipe": 'mkfifo "$1"',
        "socket": f'{find_interpreter()} -c "import os,socket,sys; os.chdir(os.path.dirname(sys.argv[1])); '
        'socket.socket(socket.AF_UNIX).bind(os.path.basename(sys.argv[1]))" "$1"',
        "folder": 'mkdir -p "$1/below"',
        "huge file": 'truncate -s "$3" "$1"',
        "empty file": ': > "$1"',
    }
    run_as_tenant(uid, f'rm -rf "$1" "$2" && {scripts[kind]}', path, target, SPARSE)


def plant_deep_folder(folder: Path, depth: int, uid: int) -> None:
    """Creates `depth` nested folders in an existing folder."""
    code = "import os,sys\nos.chdir(sys.argv[1])\nfor _ in range(int(sys.argv[2])): os.mkdir('d'); os.chdir('d')"
    run_as_tenant(uid, f'{find_interpreter()} -c "$1" "$2" "$3"', code, folder, depth)


def plant_link(path: Path, target: Path, uid: int) -> None:
    run_as_tenant(uid, 'rm -rf "$1" && ln -s "$2" "$1"', path, target)


def run_as_tenant(uid: int, script: str, *arguments: object) -> None:
    command = ["/bin/sh", "-c", script, "sh", *map(str, arguments)]
    identity: dict[str, Any] = {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}
    subprocess.run(command, **identity, check=True, capture_output=True, cwd="/")


@contextmanager
def release_pipe_readers(folder: Path, interval: float) -> Iterator[None]:
    """Releases readers blocked on a pipe in the folder every `interval` seconds, so that a failing test ends."""
    stop = threading.Event()
    thread = threading.Thread(target=_release_readers, args=(folder, interval, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _release_readers(folder: Path, interval: float, stop: threading.Event) -> None:
    while not stop.wait(interval):
        pipes = [path for path in folder.rglob("*") if not path.is_symlink() and path.is_fifo()]
        descriptors = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in pipes]
        stop.wait(0.1)  # long enough for blocked readers to see a writer
        for descriptor in descriptors:
            os.close(descriptor)


def count_bytes_read() -> int:
    """Returns the number of bytes that all threads of this process have read."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
