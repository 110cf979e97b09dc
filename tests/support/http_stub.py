"""An HTTP server that sends a fixed response to every request, to test clients with bad responses."""

import itertools
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class HttpStub:
    url: str = ""
    request_bodies: list[bytes] = field(default_factory=list)


def make_response(status: int, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Stub", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def endless_response(chunk: bytes) -> Iterable[bytes]:
    return itertools.chain([b"HTTP/1.1 200 Stub\r\nConnection: close\r\n\r\n"], itertools.repeat(chunk))


@contextmanager
def serve_stub(chunks: Iterable[bytes]) -> Iterator[HttpStub]:
    """Send these chunks to every client until it disconnects."""
    stub = HttpStub()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            stub.request_bodies.append(self.rfile.read(length))
            try:
                for chunk in chunks:
                    self.wfile.write(chunk)
            except OSError:
                pass  # the client has disconnected

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        stub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
