"""`python -m bough.gateway`: one worker, started and watched by the supervisor.

SIGTERM ends it; SIGQUIT, or the end of the supervisor, lets it serve its open connections to their end.
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

_COLLECT_AFTER = 50_000  # objects; a transaction makes some and leaves none


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bough.gateway", description=__doc__)
    parser.add_argument("--ready-fd", type=int, required=True, help="pipe to tell when ready")
    parser.add_argument("--alive-fd", type=int, required=True, help="pipe that closes when the supervisor dies")
    parser.add_argument("--settings", required=True, help="JSON")
    return parser.parse_args()


def serve(arguments: argparse.Namespace) -> int:
    """The status to end with."""
    try:
        settings = WorkerSettings.parse(arguments.settings)
        log.configure(settings.log_level)
        uvloop.run(_run(settings, arguments.ready_fd, arguments.alive_fd))
    except PlatformError as error:
        _tell(arguments.ready_fd, {"error": error.public_message})
        return 1
    return 0


async def _run(settings: WorkerSettings, ready_fd: int, alive_fd: int) -> None:
    worker = Worker(settings)
    watch_supervisor(worker, alive_fd)
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    await worker.run(lambda: _tell(ready_fd, {"ready": True}))


def _tell(fd: int, message: dict[str, object]) -> None:
    with os.fdopen(fd, "wb") as pipe:
        pipe.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    raise SystemExit(serve(parse_arguments()))
