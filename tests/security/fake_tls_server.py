"""Servers that agree to TLS, for connections that a compute opens."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_REQUEST_BYTES = 8


@asynccontextmanager
async def open_tls_server(certificate: Path) -> AsyncIterator[int]:
    """Yield the port of a server that closes each connection after the handshake. The file contains its key, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(_REQUEST_BYTES)
        writer.write(b"S")
        with suppress(ssl.SSLError, OSError):  # the client may load a wrong key, and close the connection
            await writer.start_tls(context)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
