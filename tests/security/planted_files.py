"""What code that runs as a project's user can put into the project's folders. Planted by a process of that user."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.intruder import find_interpreter

SPARSE = 1_500_000_000  # bytes, as in the attack that was seen; none of them takes disk

KINDS = ("link to a sparse file", "link to a pipe", "pipe", "socket", "folder", "huge file", "empty file")


def plant_file(kind: str, path: Path, uid: int) -> None:
    """Whatever has the name makes room for it."""
    aim = path.with_name(f"{path.name}.aim")
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
    run_as_tenant(uid, f'rm -rf "$1" "$2" && {scripts[kind]}', path, aim, SPARSE)


def plant_deep_folder(folder: Path, depth: int, uid: int) -> None:
    """So many folders in one another, in an existing folder."""
    code = "import os,sys\nos.chdir(sys.argv[1])\nfor _ in range(int(sys.argv[2])): os.mkdir('d'); os.chdir('d')"
    run_as_tenant(uid, f'{find_interpreter()} -c "$1" "$2" "$3"', code, folder, depth)


def plant_link(path: Path, aim: Path, uid: int) -> None:
    run_as_tenant(uid, 'rm -rf "$1" && ln -s "$2" "$1"', path, aim)


def run_as_tenant(uid: int, script: str, *arguments: object) -> None:
    command = ["/bin/sh", "-c", script, "sh", *map(str, arguments)]
    identity: dict[str, Any] = {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}
    subprocess.run(command, **identity, check=True, capture_output=True, cwd="/")


@contextmanager
def release_pipe_readers(folder: Path, after: float) -> Iterator[None]:
    """Whoever opened a pipe in the folder waits no longer than some seconds: a test that fails ends all the same."""
    over = threading.Event()
    watching = threading.Thread(target=_release_readers, args=(folder, after, over), daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _release_readers(folder: Path, after: float, over: threading.Event) -> None:
    while not over.wait(after):
        pipes = [path for path in folder.rglob("*") if not path.is_symlink() and path.is_fifo()]
        held = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in pipes]
        over.wait(0.1)  # whoever waited for a writer has seen one by then
        for descriptor in held:
            os.close(descriptor)


def count_bytes_read() -> int:
    """By all threads of this process, by any call."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
