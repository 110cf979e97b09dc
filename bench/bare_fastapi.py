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
from typing import Any

import fastapi
import httpx2
import uvicorn
import uvloop

ROOT = Path(__file__).parent.parent
UVICORN_OPTIONS: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "lifespan": "off",
    "server_header": False,
    "timeout_keep_alive": 75,
    "timeout_graceful_shutdown": 10,
}
CONFIGURATION = (
    "python -m bench.bare_fastapi --port N",
    '@app.get("/bare") async def bare() -> dict[str, str]: return {"status": "ok"}',
    f"FastAPI {fastapi.__version__}, no middleware; uvicorn {uvicorn.__version__} on uvloop and httptools, "
    + ", ".join(f"{name}={value}" for name, value in UVICORN_OPTIONS.items()),
)


def create_app() -> fastapi.FastAPI:
    app = fastapi.FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/bare")
    async def bare() -> dict[str, str]:
        return {"status": "ok"}

    return app


@contextmanager
def run_server(port: int) -> Iterator[int]:
    """Runs a baseline server and yields its pid when it answers."""
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
    server = uvicorn.Server(uvicorn.Config(create_app(), host="127.0.0.1", port=port, **UVICORN_OPTIONS))
    uvloop.run(server.serve())


if __name__ == "__main__":
    main()
