"""An Intruder: a tenant whose code runs inside a compute, as a hole in Postgres would let it.

What it tries runs as a child of the server, so it has the server's user, limits and privileges.
"""

import base64
import json
import shutil
from typing import Any

from support.engine_home import Compute
from support.requirements import require

# Tries each piece of code by itself, and tells what became of it.
PROGRAM = """
import base64, ctypes, errno, glob, json, os, resource, shutil, signal, socket, sys, time

def call(name, *arguments):
    # A call of the C library that Python lacks.
    libc = ctypes.CDLL(None, use_errno=True)
    result = getattr(libc, name)(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result

def connect(path):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)

def bind(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)

def raise_limit(which):
    try:
        resource.setrlimit(which, (-1, -1))
    except ValueError as error:
        raise PermissionError(error)

def outcome(code):
    try:
        exec(code, globals())
    except PermissionError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"

given = json.loads(base64.b64decode(sys.argv[1]))
globals().update(given["names"])
print(json.dumps({sentence: outcome(code) for sentence, code in given["attempts"].items()}))
"""


class Intruder:
    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    async def run_shell(self, command: str) -> str:
        """What a command prints that the server runs."""
        quoted = command.replace("'", "''")
        async with self._compute.connect("bough_admin", "postgres") as db:
            await db.execute("create temp table said (line text)")
            # No character of the output means anything to COPY.
            await db.execute(f"copy said from program '{quoted}' (format csv, delimiter e'\\x01', quote e'\\x02')")
            return "\n".join(line or "" for (line,) in await db.fetch("select line from said"))

    async def run_python(self, program: str, *arguments: str) -> str:
        words = " ".join(arguments)
        return await self.run_shell(f"echo {_packed(program)} | base64 -d | {find_interpreter()} - {words} 2>&1")

    async def try_all(self, attempts: dict[str, str], **names: Any) -> dict[str, str]:
        """What became of each attempt, as `refused`, `done` or an error."""
        given = json.dumps({"attempts": attempts, "names": {name: _plain(value) for name, value in names.items()}})
        answer: dict[str, str] = json.loads(await self.run_python(PROGRAM, _packed(given)))
        return answer


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | list) else str(value)


def find_interpreter() -> str:
    """One that every user may run; the one the tests run in may be at home with root."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    require("root", found is not None, "this test needs a Python in /usr/bin for other users")
    assert found is not None
    return found
