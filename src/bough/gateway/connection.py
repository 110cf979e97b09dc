"""The journey of one client, from the door to its compute and back."""

import asyncio
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from bough import log
from bough.errors import PlatformError
from bough.gateway import cancel, handshake, routing
from bough.gateway.activity import ActivityReporter, TrafficCounters
from bough.gateway.backend import BackendConnector, RejectedByPostgres
from bough.gateway.cache import ControlCache
from bough.gateway.cancel import CancelKeys
from bough.gateway.channel import ConnectionLost, PlainChannel, TlsChannel
from bough.gateway.client_origin import ClientOrigin, ClientOrigins
from bough.gateway.errors import (
    BACKEND_DIED,
    LOCAL_SOCKET_DENIED,
    LOGIN_TIMEOUT,
    WAKE_TIMEOUT,
    ConnectionRejected,
    to_error_response,
)
from bough.gateway.handshake import ClientConnection
from bough.gateway.limits import LoginLimits
from bough.gateway.login import Authenticator, LoginResult
from bough.gateway.pending_logins import PendingLogins
from bough.gateway.pooling.client import PooledClient
from bough.gateway.pooling.pool import Pool
from bough.gateway.pooling.pools import Pools
from bough.gateway.relay import Relay, RelayCallbacks
from bough.gateway.replication_relay import ReplicationRelay
from bough.gateway.sessions import GatewaySession, SessionRegistry
from bough.gateway.stream import Stream, StreamEnded
from bough.gateway.tls import CertificateReloader
from bough.gateway.wire import messages
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.replication import PHYSICAL_REPLICATION_UNSUPPORTED, ReplicationMode
from bough.gateway.wire.startup import CancelRequest, StartupMessage
from bough.ids import EndpointId

LOGIN_TIMEOUT_SECONDS = 30.0
WAKE_TIMEOUT_SECONDS = 90.0
_SAY_SECONDS = 5.0

logger = log.get_logger(component="gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """What a connection passes through."""

    domain: str
    certificates: CertificateReloader
    limits: LoginLimits
    cache: ControlCache
    authenticator: Authenticator
    connector: BackendConnector
    cancel_keys: CancelKeys
    activity: ActivityReporter
    pools: Pools
    sessions: SessionRegistry
    pending_logins: PendingLogins = field(default_factory=PendingLogins)
    origins: ClientOrigins = field(default_factory=lambda: ClientOrigins(None))


class AuthenticatedClient(NamedTuple):
    """A visitor that was let in."""

    connection: ClientConnection
    protocol_minor: int  # of the protocol
    counters: TrafficCounters

    async def send_greeting(self, greeting: bytes) -> None:
        self.counters.bytes_out += len(greeting)
        await self.connection.stream.send(greeting)


async def serve(services: GatewayServices, sock: socket.socket, origin: ClientOrigin) -> None:
    """Until the connection is over; whatever goes wrong is told to the client and to nobody else."""
    visitor = ClientConnection(Stream(PlainChannel(sock)), is_local=origin.is_local)
    try:
        trouble = await _serve_client(services, visitor, origin)
        if trouble is not None:
            await _send_error(visitor, trouble)
    except (ConnectionLost, StreamEnded):
        pass  # there is nobody to tell
    except Exception as error:  # one client's trouble is not the others'
        logger.error("connection_failed", exc_info=error)
    finally:
        visitor.stream.channel.close()


async def _serve_client(rooms: GatewayServices, visitor: ClientConnection, peer: ClientOrigin) -> bytes | None:
    """What the client shall be told in the end; None when there is nothing to tell."""
    try:
        entered = await _authenticate(rooms, visitor, peer)
        if entered is not None:
            startup, target, (endpoint, pool, hint) = entered
            with rooms.activity.track_connection(endpoint, hint) as tally:
                guest = AuthenticatedClient(visitor, startup.agreed_minor, tally)
                if pool is None:
                    await _serve_direct(rooms, guest, endpoint, target)
                else:
                    found = rooms.pools.get_or_create(endpoint, target, pool)
                    await _serve_pooled(rooms, guest, endpoint, found, startup.application_name)
    except ConnectionRejected as refused:
        return refused.error.encode()
    except RejectedByPostgres as refused:
        return refused.message.encode()
    except ProtocolError as malformed:
        return ErrorResponse(sqlstate=malformed.sqlstate, message=str(malformed)).encode()
    except PlatformError as error:
        return to_error_response(error).encode()
    return None


async def _authenticate(
    rooms: GatewayServices, visitor: ClientConnection, peer: ClientOrigin
) -> tuple[StartupMessage, routing.ConnectionTarget, LoginResult] | None:
    """Who it is and where they want to go, proven; None when they only came to cancel."""
    timeout = asyncio.timeout(LOGIN_TIMEOUT_SECONDS)

    def drop() -> None:
        if not timeout.expired():
            timeout.reschedule(0)

    try:
        async with timeout:
            with rooms.pending_logins.register(peer.limit_key, drop):
                return await _handshake_and_log_in(rooms, visitor, peer)
    except TimeoutError:
        raise ConnectionRejected(LOGIN_TIMEOUT) from None


async def _handshake_and_log_in(
    rooms: GatewayServices, visitor: ClientConnection, peer: ClientOrigin
) -> tuple[StartupMessage, routing.ConnectionTarget, LoginResult] | None:
    packet = await handshake.perform_handshake(visitor, rooms.certificates)
    if peer.is_local and peer.is_compute:
        raise ConnectionRejected(LOCAL_SOCKET_DENIED)
    if isinstance(packet, CancelRequest):
        await rooms.cancel_keys.route(packet)
        return None
    if packet.needs_negotiation:
        await visitor.stream.send(
            messages.encode_negotiate_protocol_version(packet.extensions, minor=packet.agreed_minor)
        )
    target = routing.resolve_target(visitor.server_name, rooms.domain, packet.parameters)
    entered = await rooms.authenticator.authenticate(visitor, target, peer)
    if target.replication_mode is ReplicationMode.PHYSICAL:
        raise ConnectionRejected(PHYSICAL_REPLICATION_UNSUPPORTED)
    return packet, target, entered


async def _serve_direct(
    rooms: GatewayServices, guest: AuthenticatedClient, endpoint: EndpointId, target: routing.ConnectionTarget
) -> None:
    """A session of the compute's own."""
    try:
        async with asyncio.timeout(WAKE_TIMEOUT_SECONDS):
            opened = await rooms.connector.connect(endpoint, target)
    except TimeoutError:
        raise ConnectionRejected(WAKE_TIMEOUT) from None
    greeting, backend = (opened.greeting_before_key, opened.greeting_after_key), opened.without_greeting()
    del opened
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    hooks = RelayCallbacks(
        on_abandoned=lambda: cancel.schedule_cancel(backend),
        on_end=lambda: over.set_result(None),
        backend_died_error=BACKEND_DIED.encode(),
    )
    try:
        with rooms.cancel_keys.register(partial(cancel.send_cancel, backend), guest.protocol_minor) as ticket:
            await guest.send_greeting(ticket.encode().join(greeting))
            del greeting
            relay = ReplicationRelay if target.replication_mode is ReplicationMode.LOGICAL else Relay
            session = relay(guest.connection.stream.channel, backend.channel, guest.counters, hooks)
            await _run_session(rooms, session, endpoint, over)
    finally:
        backend.channel.close()


async def _serve_pooled(
    rooms: GatewayServices, guest: AuthenticatedClient, endpoint: EndpointId, pool: Pool, name: bytes
) -> None:
    """A session of the gateway's, which has a compute's for each transaction."""
    await pool.wait_for_greeting()
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    client = PooledClient(guest.connection.stream.channel, pool, name, guest.counters, lambda: over.set_result(None))
    pool.add_client(client)
    try:
        with rooms.cancel_keys.register(client.cancel, guest.protocol_minor) as ticket:
            await guest.send_greeting(client.encode_greeting(ticket.encode()))
            await _run_session(rooms, client, endpoint, over)
    finally:
        pool.remove_client(client)


async def _run_session(
    rooms: GatewayServices, session: GatewaySession, endpoint: EndpointId, over: "asyncio.Future[None]"
) -> None:
    with rooms.sessions.register(endpoint, session):
        session.start()
        await over


async def _send_error(visitor: ClientConnection, trouble: bytes) -> None:
    if isinstance(visitor.stream.channel, TlsChannel) and not visitor.is_encrypted:
        return  # TLS takes no words before its handshake is over, and would be asked again and again
    try:
        async with asyncio.timeout(_SAY_SECONDS):
            await visitor.stream.send(trouble)
            visitor.stream.channel.shutdown_write()
    except TimeoutError:
        return
