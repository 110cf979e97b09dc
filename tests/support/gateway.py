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

from bough import clock
from bough.control.platform import certificates
from bough.gateway.accept_balancer import AcceptBalancer
from bough.gateway.activity import ActivityReporter
from bough.gateway.backend import BackendConnector
from bough.gateway.cache import ControlCache
from bough.gateway.cancel import CancelKeys
from bough.gateway.client_origin import ClientOrigins
from bough.gateway.connection import GatewayServices
from bough.gateway.control_plane import ComputeAddress
from bough.gateway.limits import LoginLimits
from bough.gateway.login import Authenticator
from bough.gateway.peers import WorkerPeers
from bough.gateway.pooling.budget import ServerBudget
from bough.gateway.pooling.pools import Pools
from bough.gateway.server import Server
from bough.gateway.sessions import SessionRegistry
from bough.gateway.tls import CertificateReloader
from bough.gateway.waking import ComputeWaker
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message
from bough.gateway.worker import request_handlers
from bough.ids import EndpointId
from bough.postgres.scram import scram_verifier
from support import platform
from support.control_plane import FakeControlPlane, make_access
from support.postgres import PostgresServer
from support.scram_client import ScramClient

ENDPOINT = EndpointId("ep-quiet-river-a1b2c3d4")
HOST = f"{ENDPOINT}.us-east-2.aws.localhost"
ROLE, PASSWORD, DATABASE = "store", "right horse", "postgres"
VERIFIER = scram_verifier(PASSWORD)
SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
GSS_REQUEST = (8).to_bytes(4) + (80877104).to_bytes(4)


class FakePostgresControlPlane(FakeControlPlane):
    def __init__(self, postgres: PostgresServer) -> None:
        super().__init__()
        self.access_reply = make_access(VERIFIER)
        self._postgres = postgres

    async def wake(self, endpoint: Any) -> ComputeAddress:
        await super().wake(endpoint)
        return ComputeAddress(host=str(self._postgres.folder), port=5432)


class InProcessGateway:
    def __init__(
        self, folder: Path, plane: FakePostgresControlPlane, project_uids: tuple[int, int] | None = None
    ) -> None:
        self.folder = folder
        self.project_uids = project_uids
        self.control_plane = plane
        self.ca = certificates.issue_ca(certificates.generate_key(), clock.now())
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(self.ca.certificate_pem)
        self.pem = folder / "gateway.pem"
        self.write_certificate()
        self.socket = folder / ".s.PGSQL.5432"
        self.port = 0
        self.worker_services: list[GatewayServices] = []
        self.servers: list[Server] = []
        self.peers: list[WorkerPeers] = []
        self.wire_clients: list[WireClient] = []

    def write_certificate(self) -> None:
        leaf = certificates.issue_leaf(self.ca, ["localhost", "127.0.0.1", "*.us-east-2.aws.localhost"], clock.now())
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
        siblings = WorkerPeers(self.folder)
        rooms = self._make_services(siblings)
        server = Server(rooms, listeners, AcceptBalancer(self.folder, siblings.number))
        server.start_accepting()
        self.peers.append(siblings)
        self.worker_services.append(rooms)
        self.servers.append(server)

    def _make_services(self, siblings: WorkerPeers) -> GatewayServices:
        remembering, limits = ControlCache(self.control_plane, siblings), LoginLimits()
        backends = BackendConnector(remembering, ComputeWaker(self.control_plane, remembering))
        return GatewayServices(
            domain="localhost",
            certificates=CertificateReloader(self.pem),
            limits=limits,
            cache=remembering,
            authenticator=Authenticator(remembering, limits),
            connector=backends,
            cancel_keys=CancelKeys(siblings),
            activity=ActivityReporter(self.control_plane, remembering),
            pools=Pools(backends, ServerBudget(self.folder / "pools", siblings.number, siblings.is_alive)),
            sessions=SessionRegistry(remembering),
            origins=ClientOrigins(self.project_uids),
        )

    async def query_with_libpq(self, conninfo: str, statement: str = "select 1", password: str = PASSWORD) -> str:
        """A real client; `{port}`, `{folder}` and `{host}` are ours. The first value it gets, as text."""
        whole = conninfo.format(port=self.port, folder=self.folder, host=HOST)
        async with await psycopg.AsyncConnection.connect(whole, password=password) as session:
            row = await (await session.execute(statement)).fetchone()
        return str(row[0]) if row else ""

    async def open_wire_client(self, sock: socket.socket | None = None) -> "WireClient":
        """On a socket that is connected already, or on a new one."""
        where = {"host": "127.0.0.1", "port": self.port} if sock is None else {"sock": sock}
        reader, writer = await asyncio.open_connection(**where)
        self.wire_clients.append(WireClient(reader, writer))
        return self.wire_clients[-1]


class WireClient:
    """A client that says exactly what the test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def start_tls(self, host: str | None = HOST, alpn: str | None = None, maximum: Any = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's authorities, which take long to read
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if maximum:
            context.maximum_version = maximum
        if alpn:
            context.set_alpn_protocols([alpn])
        await self.writer.start_tls(context, server_hostname=host)

    async def request_tls(self) -> bytes:
        self.writer.write(SSL_REQUEST)
        return await self.reader.readexactly(1)

    def send_startup(self, minor: int = 0, **parameters: str) -> None:
        given = {"user": ROLE, "database": DATABASE, **parameters}
        body = b"".join(f"{name}\0{value}\0".encode() for name, value in given.items()) + b"\0"
        self.writer.write((len(body) + 8).to_bytes(4) + (3 << 16 | minor).to_bytes(4) + body)

    async def read_message(self) -> Message:
        head = await self.reader.readexactly(5)
        return Message(head[:1], await self.reader.readexactly(int.from_bytes(head[1:]) - 4))

    async def read_until(self, kind: bytes) -> list[Message]:
        heard = [await self.read_message()]
        while heard[-1].type != kind:
            heard.append(await self.read_message())
        return heard

    async def read_error(self) -> messages.ErrorResponse:
        """The error that comes next, after which the gateway closes."""
        message = (await self.read_until(messages.ERROR_RESPONSE))[-1]
        assert await self.reader.read() == b""
        return messages.parse_error_response(message.body)

    async def authenticate(self, password: str = PASSWORD, *, binds: bool = False) -> None:
        """SCRAM as a client does it; what the gateway says to the proof is still to be read."""
        assert (await self.read_message()).body[:4] == (10).to_bytes(4)
        header, bound = ("p=tls-server-end-point,,", self.channel_binding()) if binds else ("n,,", b"")
        client = ScramClient(password.encode(), header=header, bound=bound)
        name = b"SCRAM-SHA-256-PLUS" if binds else b"SCRAM-SHA-256"
        first = client.first_message()
        self.send(messages.PASSWORD_MESSAGE, name + b"\0" + len(first).to_bytes(4) + first)
        self.send(messages.PASSWORD_MESSAGE, client.final_message((await self.read_message()).body[4:]))

    def channel_binding(self) -> bytes:
        tls = self.writer.get_extra_info("ssl_object")
        return hashlib.sha256(tls.getpeercert(binary_form=True)).digest()

    def send(self, kind: bytes, body: bytes) -> None:
        self.writer.write(Message(kind, body).encode())

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def open_gateway(
    postgres: PostgresServer, workers: int = 1, project_uids: tuple[int, int] | None = None
) -> AsyncIterator[InProcessGateway]:
    with platform.temporary_folder() as folder:
        opened = InProcessGateway(folder, FakePostgresControlPlane(postgres), project_uids)
        opened.open(workers)
        for siblings, rooms in zip(opened.peers, opened.worker_services, strict=True):
            await siblings.listen(request_handlers(rooms))
        for rooms in opened.worker_services:
            rooms.pools.start()
        try:
            yield opened
        finally:
            for wire in opened.wire_clients:
                wire.close()
            for server, siblings in zip(opened.servers, opened.peers, strict=True):
                server.stop_accepting()
                await server.stop(1)
                server.services.pools.close()
                siblings.close()
