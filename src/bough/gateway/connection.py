"""Serves one client: handshake, login, and then a direct or a pooled session until it ends."""

import asyncio
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from bough import log
from bough.domain.gateway_protocol import CLIENT_WAKE_TIMEOUT_SECONDS
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
_SEND_ERROR_SECONDS = 5.0

logger = log.get_logger(component="gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """The services that connections of one worker share."""

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
    connection: ClientConnection
    protocol_minor: int
    counters: TrafficCounters
    audit_fields: dict[str, str | None] | None = None  # None: statements are not audited

    def log_if_audited(self, server_pid: int | None) -> None:
        """Log the address, which the compute does not know. At a pooled host, clients share server connections."""
        if self.audit_fields is not None:
            logger.info("audited_connection", **self.audit_fields, server_pid=server_pid)

    async def send_greeting(self, greeting: bytes) -> None:
        self.counters.bytes_out += len(greeting)
        await self.connection.stream.send(greeting)


async def serve(services: GatewayServices, sock: socket.socket, origin: ClientOrigin) -> None:
    """Serve the connection until it ends. Errors are sent to the client and never raised."""
    connection = ClientConnection(Stream(PlainChannel(sock)), is_local=origin.is_local)
    try:
        error_message = await _serve_client(services, connection, origin)
        if error_message is not None:
            await _send_error(connection, error_message)
    except (ConnectionLost, StreamEnded):
        pass  # the client has gone
    except Exception as error:  # must not end the worker, which serves other clients
        logger.error("connection_failed", exc_info=error)
    finally:
        connection.stream.channel.close()


async def _serve_client(services: GatewayServices, connection: ClientConnection, origin: ClientOrigin) -> bytes | None:
    """Return the error message to send to the client, or None."""
    try:
        authenticated = await _authenticate(services, connection, origin)
        if authenticated is not None:
            startup, target, (endpoint, pool_settings, hint, is_audited) = authenticated
            is_apart = origin.is_private and services.origins.counts_private_traffic
            with services.activity.track_connection(endpoint, hint, is_private=is_apart) as counters:
                fields = _audit_fields(endpoint, target, origin) if is_audited else None
                client = AuthenticatedClient(connection, startup.agreed_minor, counters, fields)
                if pool_settings is None:
                    await _serve_direct(services, client, endpoint, target)
                else:
                    pool = services.pools.get_or_create(endpoint, target, pool_settings)
                    await _serve_pooled(services, client, endpoint, pool, startup.application_name)
    except ConnectionRejected as rejected:
        return rejected.error.encode()
    except RejectedByPostgres as rejected:
        return rejected.message.encode()
    except ProtocolError as malformed:
        return ErrorResponse(sqlstate=malformed.sqlstate, message=str(malformed)).encode()
    except PlatformError as error:
        return to_error_response(error).encode()
    return None


def _audit_fields(
    endpoint: EndpointId, target: routing.ConnectionTarget, origin: ClientOrigin
) -> dict[str, str | None]:
    return {
        "endpoint_id": endpoint,
        "role": target.role,
        "database": target.database,
        "address": origin.address,
        "application": target.parameters.get("application_name"),
    }


async def _authenticate(
    services: GatewayServices, connection: ClientConnection, origin: ClientOrigin
) -> tuple[StartupMessage, routing.ConnectionTarget, LoginResult] | None:
    """Authenticate the client within the login timeout; None if it only sent a cancel request."""
    timeout = asyncio.timeout(LOGIN_TIMEOUT_SECONDS)

    def drop() -> None:
        if not timeout.expired():
            timeout.reschedule(0)

    try:
        async with timeout:
            with services.pending_logins.register(origin.limit_key, drop):
                return await _handshake_and_log_in(services, connection, origin)
    except TimeoutError:
        raise ConnectionRejected(LOGIN_TIMEOUT) from None


async def _handshake_and_log_in(
    services: GatewayServices, connection: ClientConnection, origin: ClientOrigin
) -> tuple[StartupMessage, routing.ConnectionTarget, LoginResult] | None:
    packet = await handshake.perform_handshake(connection, services.certificates)
    if origin.is_local and origin.is_compute:
        raise ConnectionRejected(LOCAL_SOCKET_DENIED)
    if isinstance(packet, CancelRequest):
        await services.cancel_keys.route(packet)
        return None
    if packet.needs_negotiation:
        await connection.stream.send(
            messages.encode_negotiate_protocol_version(packet.extensions, minor=packet.agreed_minor)
        )
    target = routing.resolve_target(connection.server_name, services.domain, packet.parameters)
    login = await services.authenticator.authenticate(connection, target, origin)
    if target.replication_mode is ReplicationMode.PHYSICAL:
        raise ConnectionRejected(PHYSICAL_REPLICATION_UNSUPPORTED)
    return packet, target, login


async def _serve_direct(
    services: GatewayServices, client: AuthenticatedClient, endpoint: EndpointId, target: routing.ConnectionTarget
) -> None:
    """Serve a session on a Postgres backend of its own."""
    try:
        async with asyncio.timeout(CLIENT_WAKE_TIMEOUT_SECONDS):
            connected = await services.connector.connect(endpoint, target)
    except TimeoutError:
        raise ConnectionRejected(WAKE_TIMEOUT) from None
    client.log_if_audited(connected.process_id)
    # The greeting is released before the session starts: an idle connection holds no buffers.
    greeting, backend = (connected.greeting_before_key, connected.greeting_after_key), connected.without_greeting()
    del connected
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    callbacks = RelayCallbacks(
        on_abandoned=lambda: cancel.schedule_cancel(backend),
        on_end=lambda: ended.set_result(None),
        backend_died_error=BACKEND_DIED.encode(),
    )
    try:
        with services.cancel_keys.register(partial(cancel.send_cancel, backend), client.protocol_minor) as key:
            await client.send_greeting(key.encode().join(greeting))
            del greeting
            relay = ReplicationRelay if target.replication_mode is ReplicationMode.LOGICAL else Relay
            session = relay(client.connection.stream.channel, backend.channel, client.counters, callbacks)
            await _run_session(services, session, endpoint, ended)
    finally:
        backend.channel.close()


async def _serve_pooled(
    services: GatewayServices, client: AuthenticatedClient, endpoint: EndpointId, pool: Pool, application_name: bytes
) -> None:
    """Serve a session that uses a server connection of the pool for each transaction."""
    await pool.wait_for_greeting()
    client.log_if_audited(None)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    channel = client.connection.stream.channel
    pooled = PooledClient(channel, pool, application_name, client.counters, lambda: ended.set_result(None))
    pool.add_client(pooled)
    try:
        with services.cancel_keys.register(pooled.cancel, client.protocol_minor) as key:
            await client.send_greeting(pooled.encode_greeting(key.encode()))
            await _run_session(services, pooled, endpoint, ended)
    finally:
        pool.remove_client(pooled)


async def _run_session(
    services: GatewayServices, session: GatewaySession, endpoint: EndpointId, ended: "asyncio.Future[None]"
) -> None:
    with services.sessions.register(endpoint, session):
        session.start()
        await ended


async def _send_error(connection: ClientConnection, error: bytes) -> None:
    if isinstance(connection.stream.channel, TlsChannel) and not connection.is_encrypted:
        return  # TLS accepts no data before its handshake is complete, so sending would retry until the timeout
    try:
        async with asyncio.timeout(_SEND_ERROR_SECONDS):
            await connection.stream.send(error)
            connection.stream.channel.shutdown_write()
    except TimeoutError:
        return
