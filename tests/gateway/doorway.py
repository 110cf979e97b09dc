"""A gateway in this process, in front of a real Postgres, and a client that speaks byte by byte."""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

import world
from bough import clock
from bough.control import certificates
from bough.gateway.activity import Activity
from bough.gateway.backend import Backends
from bough.gateway.balance import Balance
from bough.gateway.cancel import Cancels
from bough.gateway.connection import Rooms
from bough.gateway.limits import Limits
from bough.gateway.login import Login
from bough.gateway.peer import Peers
from bough.gateway.plane import Address
from bough.gateway.pooling.budget import Budget
from bough.gateway.pooling.pools import Pools
from bough.gateway.remembering import Remembering
from bough.gateway.server import Server
from bough.gateway.sessions import Sessions
from bough.gateway.siblings import Siblings
from bough.gateway.tls import Certificates
from bough.gateway.waking import Waking
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message
from bough.gateway.worker import answers
from bough.ids import EndpointId
from bough.postgres.secret import scram_verifier
from gateway.auth.client import Client
from gateway.planes import PlaneInMemory, access

ENDPOINT = EndpointId("ep-quiet-river-a1b2c3d4")
HOST = f"{ENDPOINT}.us-east-2.aws.localhost"
ROLE, PASSWORD, DATABASE = "store", "right horse", "postgres"
VERIFIER = scram_verifier(PASSWORD)
SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
GSS_REQUEST = (8).to_bytes(4) + (80877104).to_bytes(4)


class Plane(PlaneInMemory):
    def __init__(self, postgres: world.PostgresServer) -> None:
        super().__init__()
        self.answer = access(VERIFIER)
        self._postgres = postgres

    async def wake(self, endpoint: Any) -> Address:
        await super().wake(endpoint)
        return Address(host=str(self._postgres.folder), port=5432)


class Doorway:
    def __init__(self, folder: Path, plane: Plane, project_uids: tuple[int, int] | None = None) -> None:
        self.folder = folder
        self.project_uids = project_uids
        self.plane = plane
        self.ca = certificates.new_ca(certificates.new_key(), clock.now())
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(self.ca.certificate_pem)
        self.pem = folder / "gateway.pem"
        self.new_certificate()
        self.socket = folder / ".s.PGSQL.5432"
        self.port = 0
        self.rooms: list[Rooms] = []
        self.servers: list[Server] = []
        self.siblings: list[Siblings] = []
        self.wires: list[Wire] = []

    def new_certificate(self) -> None:
        leaf = certificates.new_leaf(self.ca, ["localhost", "127.0.0.1", "*.us-east-2.aws.localhost"], clock.now())
        fresh = self.pem.with_suffix(".new")
        fresh.write_bytes(leaf.key_pem + leaf.certificate_pem)
        fresh.replace(self.pem)

    def open(self, workers: int) -> None:
        local = socket.socket(socket.AF_UNIX)
        local.bind(str(self.socket))
        local.listen(64)
        tcp = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = tcp.getsockname()[1]
        for _ in range(workers):
            self.add_worker(tcp.dup(), local.dup())
        tcp.close()
        local.close()

    def add_worker(self, *listeners: socket.socket) -> None:
        siblings = Siblings(self.folder)
        rooms = self._rooms(siblings)
        server = Server(rooms, listeners, Balance(self.folder, siblings.number))
        server.open()
        self.siblings.append(siblings)
        self.rooms.append(rooms)
        self.servers.append(server)

    def _rooms(self, siblings: Siblings) -> Rooms:
        remembering, limits = Remembering(self.plane, siblings), Limits()
        backends = Backends(remembering, Waking(self.plane, remembering))
        return Rooms(
            domain="localhost",
            certificates=Certificates(self.pem),
            limits=limits,
            remembering=remembering,
            login=Login(remembering, limits),
            backends=backends,
            cancels=Cancels(siblings),
            activity=Activity(self.plane, remembering),
            pools=Pools(backends, Budget(self.folder / "pools", siblings.number, siblings.is_alive)),
            sessions=Sessions(remembering),
            peers=Peers(self.project_uids),
        )

    async def libpq(self, conninfo: str, statement: str = "select 1", password: str = PASSWORD) -> str:
        """A real client; `{port}`, `{folder}` and `{host}` are ours. The first value it gets, as text."""
        whole = conninfo.format(port=self.port, folder=self.folder, host=HOST)
        async with await psycopg.AsyncConnection.connect(whole, password=password) as session:
            row = await (await session.execute(statement)).fetchone()
        return str(row[0]) if row else ""

    async def wire(self, sock: socket.socket | None = None) -> "Wire":
        """On a socket that is connected already, or on a new one."""
        where = {"host": "127.0.0.1", "port": self.port} if sock is None else {"sock": sock}
        reader, writer = await asyncio.open_connection(**where)
        self.wires.append(Wire(reader, writer))
        return self.wires[-1]


class Wire:
    """A client that says exactly what the test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def encrypt(self, host: str | None = HOST, alpn: str | None = None, maximum: Any = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's authorities, which take long to read
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if maximum:
            context.maximum_version = maximum
        if alpn:
            context.set_alpn_protocols([alpn])
        await self.writer.start_tls(context, server_hostname=host)

    async def ask_for_tls(self) -> bytes:
        self.writer.write(SSL_REQUEST)
        return await self.reader.readexactly(1)

    def start(self, minor: int = 0, **parameters: str) -> None:
        given = {"user": ROLE, "database": DATABASE, **parameters}
        body = b"".join(f"{name}\0{value}\0".encode() for name, value in given.items()) + b"\0"
        self.writer.write((len(body) + 8).to_bytes(4) + (3 << 16 | minor).to_bytes(4) + body)

    async def message(self) -> Message:
        head = await self.reader.readexactly(5)
        return Message(head[:1], await self.reader.readexactly(int.from_bytes(head[1:]) - 4))

    async def until(self, kind: bytes) -> list[Message]:
        heard = [await self.message()]
        while heard[-1].type != kind:
            heard.append(await self.message())
        return heard

    async def trouble(self) -> messages.Trouble:
        """The error that comes next, after which the gateway closes."""
        message = (await self.until(messages.ERROR))[-1]
        assert await self.reader.read() == b""
        return messages.trouble(message.body)

    async def log_in(self, password: str = PASSWORD, *, binds: bool = False) -> None:
        """SCRAM as a client does it; what the gateway says to the proof is still to be read."""
        assert (await self.message()).body[:4] == (10).to_bytes(4)
        header, bound = ("p=tls-server-end-point,,", self.binding()) if binds else ("n,,", b"")
        client = Client(password.encode(), header=header, bound=bound)
        name = b"SCRAM-SHA-256-PLUS" if binds else b"SCRAM-SHA-256"
        first = client.first()
        self.say(messages.PASSWORD, name + b"\0" + len(first).to_bytes(4) + first)
        self.say(messages.PASSWORD, client.final((await self.message()).body[4:]))

    def binding(self) -> bytes:
        tls = self.writer.get_extra_info("ssl_object")
        return hashlib.sha256(tls.getpeercert(binary_form=True)).digest()

    def say(self, kind: bytes, body: bytes) -> None:
        self.writer.write(Message(kind, body).encoded())

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def doorway(
    postgres: world.PostgresServer, workers: int = 1, project_uids: tuple[int, int] | None = None
) -> AsyncIterator[Doorway]:
    with world.short_folder() as folder:
        opened = Doorway(folder, Plane(postgres), project_uids)
        opened.open(workers)
        for siblings, rooms in zip(opened.siblings, opened.rooms, strict=True):
            await siblings.listen(answers(rooms))
        for rooms in opened.rooms:
            rooms.pools.start()
        try:
            yield opened
        finally:
            for wire in opened.wires:
                wire.close()
            for server, siblings in zip(opened.servers, opened.siblings, strict=True):
                server.shut()
                await server.stop(1)
                server.rooms.pools.close()
                siblings.close()
