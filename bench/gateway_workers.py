"""Gateway workers in front of a plain Postgres, which accepts direct TLS connections too.

The workers are the real program, one per core. A stub replaces control, because its answers are not measured: the
password's verifier and the address of Postgres.
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

from bench.plain_postgres import PlainPostgres
from bough import clock
from bough.control.platform import certificates
from bough.postgres.scram import scram_verifier

ENDPOINT = "ep-bench-mark-00000000"
PASSWORD = "npg_bench"
ROLE = "bench"
SERVERS, IDLE_SECONDS = 100, 600  # server connections of a pool, and their idle timeout


def create_certificate() -> certificates.SignedCertificate:
    ca = certificates.issue_ca(certificates.generate_key(), clock.now())
    return certificates.issue_leaf(ca, ["localhost", "127.0.0.1"], clock.now())


class StubControlPlane(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, postgres: PlainPostgres, port: int) -> None:
        self.replies = {
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
        super().__init__(str(path), _StubHandler)


class _StubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubControlPlane

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(self.server.replies[self.path.rsplit("/", 1)[1]]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        with suppress(BrokenPipeError):  # the worker has ended
            self.end_headers()
            self.wfile.write(body)

    def address_string(self) -> str:
        return "a worker"

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class WorkerGroup:
    def __init__(self, port: int, workers: list["subprocess.Popen[bytes]"]) -> None:
        self.port = port
        self._workers = workers

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]


@contextmanager
def start_workers(
    folder: Path, postgres: PlainPostgres, port: int, pair: certificates.SignedCertificate
) -> Iterator[WorkerGroup]:
    with ExitStack() as stack:
        control_plane = stack.enter_context(StubControlPlane(folder / "control_plane.sock", postgres, port))
        threading.Thread(target=control_plane.serve_forever, daemon=True).start()
        stack.callback(control_plane.shutdown)
        (folder / "workers").mkdir()
        (folder / "gateway.pem").write_bytes(pair.key_pem + pair.certificate_pem)
        alive, alive_write_end = os.pipe()
        stack.callback(os.close, alive_write_end)
        stack.callback(os.close, alive)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        workers = [
            stack.enter_context(_start_worker(folder, listener.fileno(), alive)) for _ in os.sched_getaffinity(0)
        ]
        yield WorkerGroup(listener.getsockname()[1], workers)


@contextmanager
def _start_worker(folder: Path, listener: int, alive: int) -> Iterator["subprocess.Popen[bytes]"]:
    ready, write_end = os.pipe()
    settings = {
        "listen_fds": [listener],
        "local_socket_fd": None,
        "domain": "localhost",
        "control_socket": str(folder / "control_plane.sock"),
        "folder": str(folder / "workers"),
        "certificate_path": str(folder / "gateway.pem"),
        "log_level": "warning",
    }
    pipes = ("--ready-fd", str(write_end), "--alive-fd", str(alive))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bough.gateway", *pipes, "--settings", json.dumps(settings)],
        pass_fds=(listener, write_end, alive),
    )
    os.close(write_end)
    with os.fdopen(ready) as pipe:
        if "ready" not in pipe.readline():
            raise RuntimeError("a gateway worker could not start")
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
