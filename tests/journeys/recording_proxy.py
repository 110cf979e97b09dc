"""Someone at the door of a platform, who passes on what is asked and writes it down."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class RecordingProxy:
    def __init__(self, behind: str, port: int) -> None:
        self.target_url = behind
        self.url = f"http://127.0.0.1:{port}"
        self.bodies: list[dict[str, Any]] = []  # of what was posted


@contextmanager
def run_proxy(behind: str) -> Iterator[RecordingProxy]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.bodies.append(json.loads(body))
            self._pass(body)

        def _pass(self, body: bytes | None) -> None:
            request = Request(behind + self.path, body, {"Content-Type": "application/json"})
            try:
                answer = urlopen(request)
            except HTTPError as error:
                answer = error
            with answer:
                content = answer.read()
                self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = RecordingProxy(behind, server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
