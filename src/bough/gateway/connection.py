"""The journey of one client, from the door to its compute and back."""

import asyncio
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from bough import log
from bough.errors import PlatformError
from bough.gateway import cancel, door, routing
from bough.gateway.activity import Activity, Tally
from bough.gateway.backend import Backends, RefusedByPostgres
from bough.gateway.cancel import Cancels
from bough.gateway.channel import Lost, PlainChannel, TlsChannel
from bough.gateway.door import Visitor
from bough.gateway.errors import BACKEND_DIED, NO_WAKE, NOT_FOR_COMPUTES, TOO_SLOW, Refused, trouble_of
from bough.gateway.limits import Limits
from bough.gateway.line import Ended, Line
from bough.gateway.login import Entered, Login
from bough.gateway.newcomers import Newcomers
from bough.gateway.peer import Peer, Peers
from bough.gateway.pooling.client import Client
from bough.gateway.pooling.pool import Pool
from bough.gateway.pooling.pools import Pools
from bough.gateway.relay import Hooks, Relay
from bough.gateway.remembering import Remembering
from bough.gateway.replication_relay import ReplicationRelay
from bough.gateway.sessions import Session, Sessions
from bough.gateway.tls import Certificates
from bough.gateway.wire import messages
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.messages import Trouble
from bough.gateway.wire.replication import NO_PHYSICAL, Kind
from bough.gateway.wire.startup import CancelRequest, Startup
from bough.ids import EndpointId

LOGIN_SECONDS = 30.0
WAKE_SECONDS = 90.0
_SAY_SECONDS = 5.0

logger = log.get(room="gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """What a connection passes through."""

    domain: str
    certificates: Certificates
    limits: Limits
    remembering: Remembering
    login: Login
    backends: Backends
    cancels: Cancels
    activity: Activity
    pools: Pools
    sessions: Sessions
    newcomers: Newcomers = field(default_factory=Newcomers)
    peers: Peers = field(default_factory=lambda: Peers(None))


class Guest(NamedTuple):
    """A visitor that was let in."""

    visitor: Visitor
    minor: int  # of the protocol
    tally: Tally

    async def greet(self, greeting: bytes) -> None:
        self.tally.bytes_out += len(greeting)
        await self.visitor.line.send(greeting)


async def serve(rooms: Rooms, sock: socket.socket, peer: Peer) -> None:
    """Until the connection is over; whatever goes wrong is told to the client and to nobody else."""
    visitor = Visitor(Line(PlainChannel(sock)), is_local=peer.is_local)
    try:
        trouble = await _served(rooms, visitor, peer)
        if trouble is not None:
            await _tell(visitor, trouble)
    except (Lost, Ended):
        pass  # there is nobody to tell
    except Exception as error:  # one client's trouble is not the others'
        logger.error("connection_failed", exc_info=error)
    finally:
        visitor.line.channel.close()


async def _served(rooms: Rooms, visitor: Visitor, peer: Peer) -> bytes | None:
    """What the client shall be told in the end; None when there is nothing to tell."""
    try:
        entered = await _entered(rooms, visitor, peer)
        if entered is not None:
            startup, target, (endpoint, pool, hint) = entered
            with rooms.activity.connection(endpoint, hint) as tally:
                guest = Guest(visitor, startup.agreed_minor, tally)
                if pool is None:
                    await _through(rooms, guest, endpoint, target)
                else:
                    found = rooms.pools.enter(endpoint, target, pool)
                    await _pooled(rooms, guest, endpoint, found, startup.application_name)
    except Refused as refused:
        return refused.trouble.encoded()
    except RefusedByPostgres as refused:
        return refused.message.encoded()
    except Malformed as malformed:
        return Trouble(code=malformed.code, message=str(malformed)).encoded()
    except PlatformError as error:
        return trouble_of(error).encoded()
    return None


async def _entered(rooms: Rooms, visitor: Visitor, peer: Peer) -> tuple[Startup, routing.Target, Entered] | None:
    """Who it is and where they want to go, proven; None when they only came to cancel."""
    timeout = asyncio.timeout(LOGIN_SECONDS)

    def drop() -> None:
        if not timeout.expired():
            timeout.reschedule(0)

    try:
        async with timeout:
            with rooms.newcomers.present(peer.key, drop):
                return await _logged_in(rooms, visitor, peer)
    except TimeoutError:
        raise Refused(TOO_SLOW) from None


async def _logged_in(rooms: Rooms, visitor: Visitor, peer: Peer) -> tuple[Startup, routing.Target, Entered] | None:
    packet = await door.enter(visitor, rooms.certificates)
    if peer.is_local and peer.is_compute:
        raise Refused(NOT_FOR_COMPUTES)
    if isinstance(packet, CancelRequest):
        await rooms.cancels.route(packet)
        return None
    if packet.needs_negotiation:
        await visitor.line.send(messages.negotiate_version(packet.extensions, minor=packet.agreed_minor))
    target = routing.target(visitor.called, rooms.domain, packet.parameters)
    entered = await rooms.login.prove(visitor, target, peer)
    if target.replication is Kind.PHYSICAL:
        raise Refused(NO_PHYSICAL)
    return packet, target, entered


async def _through(rooms: Rooms, guest: Guest, endpoint: EndpointId, target: routing.Target) -> None:
    """A session of the compute's own."""
    try:
        async with asyncio.timeout(WAKE_SECONDS):
            opened = await rooms.backends.open(endpoint, target)
    except TimeoutError:
        raise Refused(NO_WAKE) from None
    greeting, backend = (opened.before_key, opened.after_key), opened.without_greeting()
    del opened
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    hooks = Hooks(
        cancel=lambda: cancel.soon(backend),
        ended=lambda: over.set_result(None),
        last_words=BACKEND_DIED.encoded(),
    )
    try:
        with rooms.cancels.ticket(partial(cancel.send, backend), guest.minor) as ticket:
            await guest.greet(ticket.encoded().join(greeting))
            del greeting
            relay = ReplicationRelay if target.replication is Kind.LOGICAL else Relay
            session = relay(guest.visitor.line.channel, backend.channel, guest.tally, hooks)
            await _until_over(rooms, session, endpoint, over)
    finally:
        backend.channel.close()


async def _pooled(rooms: Rooms, guest: Guest, endpoint: EndpointId, pool: Pool, name: bytes) -> None:
    """A session of the gateway's, which has a compute's for each transaction."""
    await pool.greet()
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    client = Client(guest.visitor.line.channel, pool, name, guest.tally, lambda: over.set_result(None))
    pool.enter(client)
    try:
        with rooms.cancels.ticket(client.cancel, guest.minor) as ticket:
            await guest.greet(client.greeting(ticket.encoded()))
            await _until_over(rooms, client, endpoint, over)
    finally:
        pool.left(client)


async def _until_over(rooms: Rooms, session: Session, endpoint: EndpointId, over: "asyncio.Future[None]") -> None:
    with rooms.sessions.present(endpoint, session):
        session.start()
        await over


async def _tell(visitor: Visitor, trouble: bytes) -> None:
    if isinstance(visitor.line.channel, TlsChannel) and not visitor.is_encrypted:
        return  # TLS takes no words before its handshake is over, and would be asked again and again
    try:
        async with asyncio.timeout(_SAY_SECONDS):
            await visitor.line.send(trouble)
            visitor.line.channel.finish()
    except TimeoutError:
        return
