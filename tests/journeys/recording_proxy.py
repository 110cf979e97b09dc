"""An HTTP proxy that forwards requests to a platform and records the bodies that are posted."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class RecordingProxy:
    def __init__(self, target_url: str, port: int) -> None:
        self.target_url = target_url
        self.url = f"http://127.0.0.1:{port}"
        self.bodies: list[dict[str, Any]] = []  # of POST requests


@contextmanager
def run_proxy(target_url: str) -> Iterator[RecordingProxy]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._forward(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            proxy.bodies.append(json.loads(body))
            self._forward(body)

        def _forward(self, body: bytes | None) -> None:
            request = Request(target_url + self.path, body, {"Content-Type": "application/json"})
            try:
                response = urlopen(request)
            except HTTPError as error:
                response = error
            with response:
                content = response.read()
                self.send_response(response.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        proxy = RecordingProxy(target_url, server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
