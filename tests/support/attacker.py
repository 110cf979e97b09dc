"""An attacker: a tenant whose code runs inside a compute, as if it had exploited a vulnerability of Postgres.

Its programs run as children of the server, with the same user, limits and privileges.
"""

import base64
import json
import shutil
from typing import Any

from support.engine_home import Compute
from support.requirements import require

# Runs each attempt separately and prints the outcomes.
PROGRAM = """
import base64, ctypes, errno, glob, json, os, resource, shutil, signal, socket, sys, time

def call(name, *arguments):
    # Calls a function of the C library that Python does not offer.
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

request = json.loads(base64.b64decode(sys.argv[1]))
globals().update(request["names"])
print(json.dumps({sentence: outcome(code) for sentence, code in request["attempts"].items()}))
"""


class Attacker:
    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    async def run_shell(self, command: str) -> str:
        """Run a shell command in the server and return its output."""
        quoted = command.replace("'", "''")
        async with self._compute.connect("bough_admin", "postgres") as db:
            await db.execute("create temp table output (line text)")
            # With these options, no character of the output is special to COPY.
            await db.execute(f"copy output from program '{quoted}' (format csv, delimiter e'\\x01', quote e'\\x02')")
            return "\n".join(line or "" for (line,) in await db.fetch("select line from output"))

    async def run_python(self, program: str, *arguments: str) -> str:
        words = " ".join(arguments)
        return await self.run_shell(f"echo {_encode(program)} | base64 -d | {find_interpreter()} - {words} 2>&1")

    async def try_all(self, attempts: dict[str, str], **names: Any) -> dict[str, str]:
        """Return the outcome of each attempt: `refused`, `done` or an error."""
        request = json.dumps(
            {"attempts": attempts, "names": {name: _to_json_value(value) for name, value in names.items()}}
        )
        outcomes: dict[str, str] = json.loads(await self.run_python(PROGRAM, _encode(request)))
        return outcomes


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _to_json_value(value: Any) -> Any:
    return value if isinstance(value, int | list) else str(value)


def find_interpreter() -> str:
    """Find a Python that every user may run; that of the tests may be in a folder of root."""
    interpreter = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    require("root", interpreter is not None, "this test needs a Python in /usr/bin for other users")
    assert interpreter is not None
    return interpreter
