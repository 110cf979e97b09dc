"""Proving who one is: `auth/` says what the bytes are, this moves them.

Nothing wakes before the proof. Someone unknown goes the same way to the same refusal.
"""

from ipaddress import ip_address
from typing import NamedTuple

from bough import clock, log
from bough.errors import Denied, Invalid
from bough.gateway.auth import password
from bough.gateway.auth.scram import Exchange, Verifier, WrongPassword
from bough.gateway.door import Visitor
from bough.gateway.errors import closed, wrong_password
from bough.gateway.limits import Attempt, Limits
from bough.gateway.password_checks import PasswordChecks
from bough.gateway.peer import Peer
from bough.gateway.plane import Access, PoolSettings
from bough.gateway.remembering import Remembering
from bough.gateway.routing import Target, endpoint_called
from bough.gateway.wire import messages
from bough.gateway.wire.malformed import Malformed
from bough.ids import EndpointId

logger = log.get(room="gateway")

LOOPBACK = "127.0.0.1"
_LONGEST = 10_000  # bytes of one message

NO_ENDPOINT = (
    "The connection does not say which endpoint it wants: the client sends no server name (SNI). "
    "Add options=endpoint%3Dep-… to the connection string, or give the password as endpoint=ep-…;password."
)


class Entered(NamedTuple):
    endpoint: EndpointId
    pool: PoolSettings | None  # None: a compute's own session
    read_only_hint: str | None  # for whoever cannot write


class Login:
    def __init__(self, remembering: Remembering, limits: Limits) -> None:
        self._remembering = remembering
        self._limits = limits
        self._checks = PasswordChecks()

    async def prove(self, visitor: Visitor, target: Target, peer: Peer) -> Entered:
        """Where the client may enter; raises when it may not."""
        endpoint, pooled, typed = target.endpoint, target.pooled, ""
        if endpoint is None:
            endpoint, pooled, typed = await self._asked_for_password(visitor)
        attempt = Attempt(self._limits, peer.key, endpoint)
        access = await self._remembering.access(endpoint, target.role)
        try:
            if target.endpoint is None:
                await self._compare(endpoint, typed, access, attempt)
            else:
                await _exchange(visitor, access, attempt)
        except WrongPassword:
            logger.info("login_refused", endpoint=endpoint, role=target.role, address=peer.address)
            self._remembering.drop_access(endpoint, target.role)
            raise wrong_password(target.role) from None
        finally:
            attempt.end()
        attempt.passed()
        _check_network(access, peer)
        if access.closed is not None:
            raise closed(access.closed)
        pool = access.pool if pooled or access.pool.direct_host_too else None
        return Entered(endpoint, pool, access.read_only_hint)

    async def _asked_for_password(self, visitor: Visitor) -> tuple[EndpointId, bool, str]:
        await visitor.line.send(messages.ASK_PASSWORD)
        found = password.cut(messages.password(await _answer(visitor)))
        if found is None:
            raise Invalid(NO_ENDPOINT)
        return *endpoint_called(found[0]), found[1]

    async def _compare(self, endpoint: EndpointId, typed: str, access: Access, attempt: Attempt) -> None:
        """The same proof, computed here instead of by the client."""
        fits = await self._checks.fits(endpoint, typed, _verifier(access), attempt)
        if not fits or not _may_fit(access):
            raise WrongPassword


async def _exchange(visitor: Visitor, access: Access, attempt: Attempt) -> None:
    exchange = Exchange(_verifier(access), visitor.binding, is_known=_may_fit(access))
    attempt.begin()
    await visitor.line.send(messages.ask_sasl(exchange.mechanisms))
    mechanism, first = messages.sasl_initial(await _answer(visitor))
    await visitor.line.send(messages.sasl_continue(exchange.first(mechanism, first)))
    proof = await _answer(visitor)
    attempt.judge()  # nothing is awaited between this and the judgement
    await visitor.line.send(messages.sasl_final(exchange.final(proof)))


async def _answer(visitor: Visitor) -> bytes:
    message = await visitor.line.message(_LONGEST)
    if message.type != messages.PASSWORD:
        raise Malformed("the client answers the question for its password with something else")
    return message.body


def _verifier(access: Access) -> Verifier:
    if access.refusal is not None:
        raise Denied(access.refusal)
    verifier = Verifier.parse(access.verifier)
    if verifier is None:
        raise Denied("The password of this role is not stored as SCRAM-SHA-256; set it again.")
    return verifier


def _may_fit(access: Access) -> bool:
    """A password that is over fits no longer, and cannot be told from a wrong one."""
    return access.is_known and (access.valid_until is None or access.valid_until > clock.now())


def _check_network(access: Access, peer: Peer) -> None:
    """A client of the local socket counts as one that came from this machine's loopback address."""
    if access.networks is None:
        return
    address = peer.address or LOOPBACK
    if any(ip_address(address) in network for network in access.networks):
        return
    refusal = f"The address {address} is not among those that the project allows (allowed_ips)."
    if peer.is_local:
        refusal += f" Connections by the local socket count as coming from {LOOPBACK}: add it to allowed_ips."
    raise Denied(refusal)
