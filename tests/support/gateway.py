"""A gateway in this process, in front of a real Postgres, and a client that speaks byte by byte."""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from bough import clock
from bough.control.platform import certificates
from bough.domain.gateway_protocol import ComputeAddress
from bough.domain.private_networks import PrivateNetworks
from bough.gateway.accept_balancer import AcceptBalancer
from bough.gateway.activity import ActivityReporter
from bough.gateway.backend import BackendConnector
from bough.gateway.cache import ControlCache
from bough.gateway.cancel import CancelKeys
from bough.gateway.client_origin import ClientOrigins
from bough.gateway.connection import GatewayServices
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
        self,
        folder: Path,
        control_plane: FakePostgresControlPlane,
        project_uids: tuple[int, int] | None = None,
        private_networks: Iterable[str] | None = None,
    ) -> None:
        self.folder = folder
        self.project_uids = project_uids
        self.private_networks = PrivateNetworks(private_networks)
        self.control_plane = control_plane
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
        new = self.pem.with_suffix(".new")
        new.write_bytes(leaf.key_pem + leaf.certificate_pem)
        new.replace(self.pem)

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
        peers = WorkerPeers(self.folder)
        services = self._make_services(peers)
        server = Server(services, listeners, AcceptBalancer(self.folder, peers.number))
        server.start_accepting()
        self.peers.append(peers)
        self.worker_services.append(services)
        self.servers.append(server)

    def _make_services(self, peers: WorkerPeers) -> GatewayServices:
        cache, limits = ControlCache(self.control_plane, peers), LoginLimits()
        connector = BackendConnector(cache, ComputeWaker(self.control_plane, cache))
        return GatewayServices(
            domain="localhost",
            certificates=CertificateReloader(self.pem),
            limits=limits,
            cache=cache,
            authenticator=Authenticator(cache, limits),
            connector=connector,
            cancel_keys=CancelKeys(peers),
            activity=ActivityReporter(self.control_plane, cache),
            pools=Pools(connector, ServerBudget(self.folder / "pools", peers.number, peers.is_alive)),
            sessions=SessionRegistry(cache),
            origins=ClientOrigins(self.project_uids, self.private_networks),
        )

    async def query_with_libpq(self, conninfo: str, statement: str = "select 1", password: str = PASSWORD) -> str:
        """Connect with libpq and return the first value as text. The conninfo may use {port}, {folder} and {host}."""
        formatted = conninfo.format(port=self.port, folder=self.folder, host=HOST)
        async with await psycopg.AsyncConnection.connect(formatted, password=password) as session:
            row = await (await session.execute(statement)).fetchone()
        return str(row[0]) if row else ""

    async def open_wire_client(self, sock: socket.socket | None = None) -> "WireClient":
        """Open a client on a connected socket, or on a new one."""
        options = {"host": "127.0.0.1", "port": self.port} if sock is None else {"sock": sock}
        reader, writer = await asyncio.open_connection(**options)
        self.wire_clients.append(WireClient(reader, writer))
        return self.wire_clients[-1]


class WireClient:
    """A client that sends exactly the bytes that the test chooses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def start_tls(self, host: str | None = HOST, alpn: str | None = None, maximum: Any = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # does not load the system's CA certificates, which is slow
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
        startup = {"user": ROLE, "database": DATABASE, **parameters}
        body = b"".join(f"{name}\0{value}\0".encode() for name, value in startup.items()) + b"\0"
        self.writer.write((len(body) + 8).to_bytes(4) + (3 << 16 | minor).to_bytes(4) + body)

    async def read_message(self) -> Message:
        header = await self.reader.readexactly(5)
        return Message(header[:1], await self.reader.readexactly(int.from_bytes(header[1:]) - 4))

    async def read_until(self, kind: bytes) -> list[Message]:
        received = [await self.read_message()]
        while received[-1].type != kind:
            received.append(await self.read_message())
        return received

    async def read_error(self) -> messages.ErrorResponse:
        """Read the next error, after which the gateway must close the connection."""
        message = (await self.read_until(messages.ERROR_RESPONSE))[-1]
        assert await self.reader.read() == b""
        return messages.parse_error_response(message.body)

    async def authenticate(self, password: str = PASSWORD, *, binds: bool = False) -> None:
        """Send the messages of a SCRAM exchange; the gateway's reply to the proof is not read."""
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
    postgres: PostgresServer,
    workers: int = 1,
    project_uids: tuple[int, int] | None = None,
    private_networks: Iterable[str] | None = None,
) -> AsyncIterator[InProcessGateway]:
    with platform.temporary_folder() as folder:
        gateway = InProcessGateway(folder, FakePostgresControlPlane(postgres), project_uids, private_networks)
        gateway.open(workers)
        for peers, services in zip(gateway.peers, gateway.worker_services, strict=True):
            await peers.listen(request_handlers(services))
        for services in gateway.worker_services:
            services.pools.start()
        try:
            yield gateway
        finally:
            for wire in gateway.wire_clients:
                wire.close()
            for server, peers in zip(gateway.servers, gateway.peers, strict=True):
                server.stop_accepting()
                await server.stop(1)
                server.services.pools.close()
                peers.close()
