"""Gateway workers in front of a Postgres made by hand, which also takes direct TLS: the same server twice.

The workers are the program's own, one per core. Control's part is played by a few lines here, because
what it answers is not what is measured: the password's verifier, and where the Postgres is.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

from bench.by_hand import Postgres
from bough import clock
from bough.control import certificates
from bough.postgres.secret import scram_verifier

ENDPOINT = "ep-bench-mark-00000000"
PASSWORD = "npg_bench"
ROLE = "bench"
SERVERS, IDLE_SECONDS = 100, 600  # of a pool, and of a server connection in it


def certificate() -> certificates.Signed:
    ca = certificates.new_ca(certificates.new_key(), clock.now())
    return certificates.new_leaf(ca, ["localhost", "127.0.0.1"], clock.now())


class Plane(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, postgres: Postgres, port: int) -> None:
        self.answers = {
            "access": {
                "verifier": scram_verifier(PASSWORD),
                "is_known": True,
                "valid_until": None,
                "networks": None,
                "refusal": None,
                "pool": {"servers": SERVERS, "servers_per_pool": SERVERS, "idle_seconds": IDLE_SECONDS},
            },
            "wake": {"host": str(postgres.sockets), "port": port},
            "report": {"drop": []},
        }
        super().__init__(str(path), _Answers)


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Plane

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(self.server.answers[self.path.rsplit("/", 1)[1]]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        with suppress(BrokenPipeError):  # a worker that was ended meanwhile
            self.end_headers()
            self.wfile.write(body)

    def address_string(self) -> str:
        return "a worker"

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Door:
    def __init__(self, port: int, workers: list["subprocess.Popen[bytes]"]) -> None:
        self.port = port
        self._workers = workers

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]


@contextmanager
def opened(folder: Path, postgres: Postgres, port: int, pair: certificates.Signed) -> Iterator[Door]:
    with ExitStack() as stack:
        plane = stack.enter_context(Plane(folder / "plane.sock", postgres, port))
        threading.Thread(target=plane.serve_forever, daemon=True).start()
        stack.callback(plane.shutdown)
        (folder / "workers").mkdir()
        (folder / "gateway.pem").write_bytes(pair.key_pem + pair.certificate_pem)
        alive, our_end = os.pipe()
        stack.callback(os.close, our_end)
        stack.callback(os.close, alive)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        workers = [stack.enter_context(_worker(folder, listener.fileno(), alive)) for _ in os.sched_getaffinity(0)]
        yield Door(listener.getsockname()[1], workers)


@contextmanager
def _worker(folder: Path, listener: int, alive: int) -> Iterator["subprocess.Popen[bytes]"]:
    ready, write_end = os.pipe()
    settings = {
        "listen_fds": [listener],
        "door_fd": None,
        "domain": "localhost",
        "plane": str(folder / "plane.sock"),
        "folder": str(folder / "workers"),
        "tls": str(folder / "gateway.pem"),
        "log_level": "warning",
    }
    pipes = ("--ready-fd", str(write_end), "--alive-fd", str(alive))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bough.gateway", *pipes, "--settings", json.dumps(settings)],
        pass_fds=(listener, write_end, alive),
    )
    os.close(write_end)
    with os.fdopen(ready) as said:
        if "ready" not in said.readline():
            raise RuntimeError("a gateway worker could not start")
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
