"""The baseline of the API: one FastAPI route that returns a constant, served in the same way as Bough.

`python -m bench.bare_fastapi --port N` runs it with the uvicorn settings of Bough.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fastapi
import httpx2
import uvicorn
import uvloop

from bough.api.server import GRACEFUL_SHUTDOWN_SECONDS, UVICORN_OPTIONS

ROOT = Path(__file__).parent.parent
_OPTIONS = {**UVICORN_OPTIONS, "timeout_graceful_shutdown": GRACEFUL_SHUTDOWN_SECONDS}
CONFIGURATION = (
    "python -m bench.bare_fastapi --port N",
    '@app.get("/bare") async def bare() -> dict[str, str]: return {"status": "ok"}',
    f"FastAPI {fastapi.__version__}, no middleware; uvicorn {uvicorn.__version__} on uvloop and httptools, "
    + ", ".join(f"{name}={value}" for name, value in _OPTIONS.items()),
)


def create_app() -> fastapi.FastAPI:
    app = fastapi.FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/bare")
    async def bare() -> dict[str, str]:
        return {"status": "ok"}

    return app


@contextmanager
def run_server(port: int) -> Iterator[int]:
    """Run a baseline server and yield its pid when it answers."""
    process = subprocess.Popen([sys.executable, "-m", "bench.bare_fastapi", "--port", str(port)], cwd=ROOT)
    try:
        _wait_until_it_answers(port)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_until_it_answers(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            httpx2.get(f"http://127.0.0.1:{port}/bare").raise_for_status()
        except httpx2.ConnectError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port: int = parser.parse_args().port
    server = uvicorn.Server(uvicorn.Config(create_app(), host="127.0.0.1", port=port, **_OPTIONS))
    uvloop.run(server.serve())


if __name__ == "__main__":
    main()
