"""Makes one step of an operation kill the control process, as a crashing library or the OOM killer would.

Python imports `sitecustomize` from its path at every start. The variable POISONED_ENDPOINT names a file that contains
an endpoint id. While the file exists, suspending the compute of that endpoint kills control shortly after the step
starts, together with all other work in the process.
"""

import os
from pathlib import Path

CRASH_VARIABLE = "POISONED_ENDPOINT"
_SITECUSTOMIZE = """
import asyncio
import importlib.abc
import importlib.util
import os
import signal
import sys
from pathlib import Path

TARGET = "bough.operations.actions.suspend_compute"


class Poison(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), poison(module.SuspendCompute))
        return spec


def poison(action):
    stop = action.stop

    async def kill(self, ctx):
        file = Path(os.environ["POISONED_ENDPOINT"])
        if file.exists() and file.read_text() == self.endpoint_id:
            await asyncio.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        return await stop(self, ctx)

    kill.is_step, kill.undo = True, None
    action.stop = kill


if "POISONED_ENDPOINT" in os.environ:
    sys.meta_path.insert(0, Poison())
"""


def make_crash_environment(folder: Path) -> dict[str, str]:
    """Returns the environment variables of a platform whose control process can be made to crash."""
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, CRASH_VARIABLE: str(folder / "poisoned")}
