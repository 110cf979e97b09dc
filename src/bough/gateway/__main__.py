"""`python -m bough.gateway`: one worker, started and watched by the supervisor.

SIGTERM stops it. SIGQUIT, or the end of the supervisor, makes it drain: it serves its open connections until
they end and accepts no new ones.
"""

import argparse
import gc
import json
import os

import uvloop

from bough import log
from bough.errors import PlatformError
from bough.gateway.settings import WorkerSettings
from bough.gateway.worker import Worker, watch_supervisor

_GC_THRESHOLD = 50_000  # objects; a transaction creates some and leaves no cycles


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bough.gateway", description=__doc__)
    parser.add_argument(
        "--ready-fd", type=int, required=True, help="pipe that receives a line when the worker is ready"
    )
    parser.add_argument("--alive-fd", type=int, required=True, help="pipe that closes when the supervisor ends")
    parser.add_argument("--settings", required=True, help="settings as JSON")
    return parser.parse_args()


def serve(arguments: argparse.Namespace) -> int:
    """Run the worker and return its exit status."""
    try:
        settings = WorkerSettings.parse(arguments.settings)
        log.configure(settings.log_level)
        uvloop.run(_run(settings, arguments.ready_fd, arguments.alive_fd))
    except PlatformError as error:
        _notify_supervisor(arguments.ready_fd, {"error": error.public_message})
        return 1
    return 0


async def _run(settings: WorkerSettings, ready_fd: int, alive_fd: int) -> None:
    worker = Worker(settings)
    watch_supervisor(worker, alive_fd)
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    await worker.run(lambda: _notify_supervisor(ready_fd, {"ready": True}))


def _notify_supervisor(fd: int, message: dict[str, object]) -> None:
    with os.fdopen(fd, "wb") as pipe:
        pipe.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    raise SystemExit(serve(parse_arguments()))
