"""Load for an HTTP server: keep-alive connections that repeat one request.

Uses a protocol on a raw socket, because a full client would cost more than the measured server.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop

TIMEOUT = 30.0  # seconds for the last responses


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """One request to one server."""

    name: str
    port: int
    path: str
    key: str = ""

    @property
    def request(self) -> bytes:
        lines = [f"GET {self.path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Accept: application/json"]
        if self.key:
            lines.append(f"Authorization: Bearer {self.key}")
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(slots=True)
class LoadResult:
    """The responses within the time."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    own_cpu: float = 0.0  # CPU seconds of the load generator

    def __iadd__(self, more: "LoadResult") -> "LoadResult":
        self.seconds += more.seconds
        self.latencies += more.latencies
        self.own_cpu += more.own_cpu
        return self

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds


class _LoadConnection(asyncio.Protocol):
    """Repeats the request after each complete response until the time is up; every status but 200 is an error."""

    def __init__(self, target: RequestTarget, answers: LoadResult, until: float) -> None:
        self._request = target.request
        self._answers = answers
        self._until = until
        self._sent_at = 0.0
        self._transport: asyncio.WriteTransport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._send_request(time.perf_counter())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Handle a complete response; called by the parser."""
        now = time.perf_counter()
        status = self._parser.get_status_code()
        if status != 200:
            self._end(RuntimeError(f"the server answered {status}"))
            return
        self._answers.latencies.append(now - self._sent_at)
        if now < self._until:
            self._parser = httptools.HttpResponseParser(self)
            self._send_request(now)
        else:
            self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or RuntimeError("the server closed the connection"))

    def _send_request(self, now: float) -> None:
        assert self._transport is not None
        self._sent_at = now
        self._transport.write(self._request)

    def _end(self, error: Exception | None) -> None:
        if self.finished.done():
            return
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)
        if self._transport is not None:
            self._transport.close()


def run_load(target: RequestTarget, *, connections: int, seconds: float) -> LoadResult:
    """Send requests over a number of connections for a number of seconds, each after the previous response."""
    return uvloop.run(_run_load(target, connections, seconds))


async def _run_load(target: RequestTarget, connections: int, seconds: float) -> LoadResult:
    loop = asyncio.get_running_loop()
    answers = LoadResult(seconds)
    started_at, cpu = time.perf_counter(), time.process_time()
    asking = [
        (
            await loop.create_connection(
                lambda: _LoadConnection(target, answers, started_at + seconds), "127.0.0.1", target.port
            )
        )[1]
        for _ in range(connections)
    ]
    async with asyncio.timeout(seconds + TIMEOUT):
        await asyncio.gather(*(each.finished for each in asking))
    answers.seconds = time.perf_counter() - started_at
    answers.own_cpu = time.process_time() - cpu
    return answers
