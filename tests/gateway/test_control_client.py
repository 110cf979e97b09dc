"""The HTTP client of the control plane: it keeps connections, and retries on a closed one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bough.gateway.control_client import ConnectionFailed, HttpResponse, UnixHttpClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class StubServer:
    """Answers each request with the next reply; None closes the connection instead."""

    def __init__(self, *replies: bytes | None) -> None:
        self.replies = list(replies)
        self.connections = 0
        self.open: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.replies:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
                reply = self.replies.pop(0)
                if reply is None:
                    break
                writer.write(reply)
        except asyncio.IncompleteReadError:
            pass
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def open_client(folder: Path, server: StubServer) -> AsyncIterator[UnixHttpClient]:
    path = folder / "s"
    listening = await asyncio.start_unix_server(server.accept, path)
    asker = UnixHttpClient(path)
    yield asker
    await asker.close()
    listening.close()
    await asyncio.gather(*server.open)


async def test_a_connection_is_kept_for_the_next_question(tmp_path: Path) -> None:
    server = StubServer(OK, OK, OK, OK)
    async with open_client(tmp_path, server) as asker:
        for _ in range(3):
            assert await asker.post("/x", {}, 5) == HttpResponse(200, {})
    assert server.connections == 1


async def test_questions_at_once_have_connections_of_their_own(tmp_path: Path) -> None:
    server = StubServer(*[OK] * 10)
    async with open_client(tmp_path, server) as asker:
        assert await asyncio.gather(*(asker.post("/x", {}, 5) for _ in range(5))) == [HttpResponse(200, {})] * 5
    assert server.connections == 5


async def test_a_kept_connection_that_was_closed_meanwhile_is_not_noticed(tmp_path: Path) -> None:
    server = StubServer(OK, None, OK, OK)
    async with open_client(tmp_path, server) as asker:
        await asker.post("/x", {}, 5)
        assert await asker.post("/x", {}, 5) == HttpResponse(200, {})
    assert server.connections == 2


async def test_an_answer_may_come_in_pieces_and_say_no(tmp_path: Path) -> None:
    chunked = b'HTTP/1.1 423 Locked\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n'
    async with open_client(tmp_path, StubServer(chunked)) as asker:
        assert await asker.post("/x", {}, 5) == HttpResponse(423, {"a": 1})


@pytest.mark.parametrize("reply", [None, b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{["])
async def test_what_is_no_answer_is_gone(tmp_path: Path, reply: bytes | None) -> None:
    async with open_client(tmp_path, StubServer(reply)) as asker:
        with pytest.raises(ConnectionFailed):
            await asker.post("/x", {}, 5)


async def test_nobody_there_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed):
        await UnixHttpClient(tmp_path / "nothing").post("/x", {}, 5)


async def test_no_answer_in_time_is_gone(tmp_path: Path) -> None:
    async with open_client(tmp_path, StubServer(b"", OK)) as asker:
        with pytest.raises(ConnectionFailed):
            await asker.post("/x", {}, 0.05)
