"""Proving who one is: `auth/` says what the bytes are, this moves them.

Nothing wakes before the proof. Someone unknown goes the same way to the same refusal.
"""

from ipaddress import ip_address
from typing import NamedTuple

from bough import clock, log
from bough.errors import Denied, Invalid
from bough.gateway.auth import password
from bough.gateway.auth.scram import ScramExchange, ScramVerifier, WrongPassword
from bough.gateway.cache import ControlCache
from bough.gateway.client_origin import ClientOrigin
from bough.gateway.control_plane import Access, PoolSettings
from bough.gateway.errors import endpoint_closed_error, wrong_password_error
from bough.gateway.handshake import ClientConnection
from bough.gateway.limits import LoginAttempt, LoginLimits
from bough.gateway.password_checks import PasswordVerifier
from bough.gateway.routing import ConnectionTarget, parse_endpoint_name
from bough.gateway.wire import messages
from bough.gateway.wire.protocol_error import ProtocolError
from bough.ids import EndpointId

logger = log.get_logger(component="gateway")

LOOPBACK = "127.0.0.1"
_LONGEST = 10_000  # bytes of one message

NO_ENDPOINT = (
    "The connection does not say which endpoint it wants: the client sends no server name (SNI). "
    "Add options=endpoint%3Dep-… to the connection string, or give the password as endpoint=ep-…;password."
)


class LoginResult(NamedTuple):
    endpoint: EndpointId
    pool_settings: PoolSettings | None  # None: a compute's own session
    read_only_hint: str | None  # for whoever cannot write


class Authenticator:
    def __init__(self, cache: ControlCache, limits: LoginLimits) -> None:
        self._remembering = cache
        self._limits = limits
        self._checks = PasswordVerifier()

    async def authenticate(
        self, client: ClientConnection, target: ConnectionTarget, origin: ClientOrigin
    ) -> LoginResult:
        """Where the client may enter; raises when it may not."""
        endpoint, pooled, typed = target.endpoint, target.is_pooled, ""
        if endpoint is None:
            endpoint, pooled, typed = await self._asked_for_password(client)
        attempt = LoginAttempt(self._limits, origin.limit_key, endpoint)
        access = await self._remembering.get_access(endpoint, target.role)
        try:
            if target.endpoint is None:
                await self._compare(endpoint, typed, access, attempt)
            else:
                await _exchange(client, access, attempt)
        except WrongPassword:
            logger.info("login_refused", endpoint=endpoint, role=target.role, address=origin.address)
            self._remembering.invalidate_access(endpoint, target.role)
            raise wrong_password_error(target.role) from None
        finally:
            attempt.close()
        attempt.record_success()
        _check_network(access, origin)
        if access.blocked_reason is not None:
            raise endpoint_closed_error(access.blocked_reason)
        pool = access.pool_settings if pooled or access.pool_settings.direct_host_too else None
        return LoginResult(endpoint, pool, access.read_only_hint)

    async def _asked_for_password(self, visitor: ClientConnection) -> tuple[EndpointId, bool, str]:
        await visitor.stream.send(messages.AUTHENTICATION_CLEARTEXT_PASSWORD)
        found = password.split_endpoint_password(messages.parse_password(await _answer(visitor)))
        if found is None:
            raise Invalid(NO_ENDPOINT)
        return *parse_endpoint_name(found[0]), found[1]

    async def _compare(self, endpoint: EndpointId, typed: str, access: Access, attempt: LoginAttempt) -> None:
        """The same proof, computed here instead of by the client."""
        fits = await self._checks.verify(endpoint, typed, _verifier(access), attempt)
        if not fits or not _can_log_in(access):
            raise WrongPassword


async def _exchange(visitor: ClientConnection, access: Access, attempt: LoginAttempt) -> None:
    exchange = ScramExchange(_verifier(access), visitor.channel_binding, is_known=_can_log_in(access))
    attempt.mark_challenged()
    await visitor.stream.send(messages.encode_authentication_sasl(exchange.mechanisms))
    mechanism, first = messages.parse_sasl_initial_response(await _answer(visitor))
    await visitor.stream.send(
        messages.encode_authentication_sasl_continue(exchange.handle_client_first(mechanism, first))
    )
    proof = await _answer(visitor)
    attempt.count()  # nothing is awaited between this and the judgement
    await visitor.stream.send(messages.encode_authentication_sasl_final(exchange.handle_client_final(proof)))


async def _answer(visitor: ClientConnection) -> bytes:
    message = await visitor.stream.read_message(_LONGEST)
    if message.type != messages.PASSWORD_MESSAGE:
        raise ProtocolError("the client answers the question for its password with something else")
    return message.body


def _verifier(access: Access) -> ScramVerifier:
    if access.rejection is not None:
        raise Denied(access.rejection)
    verifier = ScramVerifier.parse(access.verifier)
    if verifier is None:
        raise Denied("The password of this role is not stored as SCRAM-SHA-256; set it again.")
    return verifier


def _can_log_in(access: Access) -> bool:
    """A password that is over fits no longer, and cannot be told from a wrong one."""
    return access.is_known and (access.valid_until is None or access.valid_until > clock.now())


def _check_network(access: Access, peer: ClientOrigin) -> None:
    """A client of the local socket counts as one that came from this machine's loopback address."""
    if access.allowed_networks is None:
        return
    address = peer.address or LOOPBACK
    if any(ip_address(address) in network for network in access.allowed_networks):
        return
    refusal = f"The address {address} is not among those that the project allows (allowed_ips)."
    if peer.is_local:
        refusal += f" Connections by the local socket count as coming from {LOOPBACK}: add it to allowed_ips."
    raise Denied(refusal)
