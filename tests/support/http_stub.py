"""A server that says what it is told to, whatever it is asked: for how clients take bad answers."""

import itertools
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class HttpStub:
    url: str = ""
    request_bodies: list[bytes] = field(default_factory=list)  # bodies


def make_response(status: int, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def endless_response(piece: bytes) -> Iterable[bytes]:
    return itertools.chain([b"HTTP/1.1 200 Said\r\nConnection: close\r\n\r\n"], itertools.repeat(piece))


@contextmanager
def serve_stub(pieces: Iterable[bytes]) -> Iterator[HttpStub]:
    """The same pieces to everybody, until they leave."""
    said = HttpStub()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            said.request_bodies.append(self.rfile.read(length))
            try:
                for piece in pieces:
                    self.wfile.write(piece)
            except OSError:
                pass  # they left

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        said.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield said
        finally:
            server.shutdown()
            thread.join()
