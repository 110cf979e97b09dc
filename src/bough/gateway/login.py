"""Authenticates clients: moves the messages that `auth/` builds and parses.

No compute is woken before the password is verified. A login with an unknown role takes the same steps and
gets the same error as one with a wrong password.
"""

from ipaddress import ip_address, ip_network
from typing import NamedTuple

from bough import clock, log
from bough.domain.gateway_protocol import Access
from bough.domain.pooler import PoolSettings
from bough.errors import Denied, Invalid
from bough.gateway.auth import password
from bough.gateway.auth.scram import ScramExchange, ScramVerifier, WrongPassword
from bough.gateway.cache import ControlCache
from bough.gateway.client_origin import ClientOrigin
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
_MAX_MESSAGE_BYTES = 10_000

NO_ENDPOINT = (
    "The connection does not name an endpoint: the client sends no server name (SNI). "
    "Add options=endpoint%3Dep-… to the connection string, or give the password as endpoint=ep-…;password."
)


class LoginResult(NamedTuple):
    endpoint: EndpointId
    pool_settings: PoolSettings | None  # None: a direct session
    read_only_hint: str | None  # added to the error of a rejected write
    is_audited: bool = False


class Authenticator:
    def __init__(self, cache: ControlCache, limits: LoginLimits) -> None:
        self._cache = cache
        self._limits = limits
        self._password_verifier = PasswordVerifier()

    async def authenticate(
        self, client: ClientConnection, target: ConnectionTarget, origin: ClientOrigin
    ) -> LoginResult:
        """Return the endpoint that the client may connect to; raise if it may not."""
        endpoint, is_pooled, clear_text = target.endpoint, target.is_pooled, ""
        if endpoint is None:
            endpoint, is_pooled, clear_text = await self._request_password(client)
        attempt = LoginAttempt(self._limits, origin.limit_key, endpoint)
        access = await self._cache.get_access(endpoint, target.role)
        try:
            if target.endpoint is None:
                await self._verify_clear_text(endpoint, clear_text, access, attempt)
            else:
                await _exchange_scram(client, access, attempt)
        except WrongPassword:
            logger.info("login_rejected", endpoint_id=endpoint, role=target.role, address=origin.address)
            self._cache.invalidate_access(endpoint, target.role)
            raise wrong_password_error(target.role) from None
        finally:
            attempt.close()
        attempt.record_success()
        _check_network(access, origin)
        if access.blocked_reason is not None:
            raise endpoint_closed_error(access.blocked_reason, access.blocked_hint)
        pool = access.pool_settings if is_pooled or access.pool_settings.direct_host_too else None
        return LoginResult(endpoint, pool, access.read_only_hint, access.is_audited)

    async def _request_password(self, client: ClientConnection) -> tuple[EndpointId, bool, str]:
        await client.stream.send(messages.AUTHENTICATION_CLEARTEXT_PASSWORD)
        found = password.split_endpoint_password(messages.parse_password(await _read_response(client)))
        if found is None:
            raise Invalid(NO_ENDPOINT)
        return *parse_endpoint_name(found[0]), found[1]

    async def _verify_clear_text(
        self, endpoint: EndpointId, clear_text: str, access: Access, attempt: LoginAttempt
    ) -> None:
        is_valid = await self._password_verifier.verify(endpoint, clear_text, _parse_verifier(access), attempt)
        if not is_valid or not _can_log_in(access):
            raise WrongPassword


async def _exchange_scram(client: ClientConnection, access: Access, attempt: LoginAttempt) -> None:
    exchange = ScramExchange(_parse_verifier(access), client.channel_binding, is_known=_can_log_in(access))
    attempt.mark_challenged()
    await client.stream.send(messages.encode_authentication_sasl(exchange.mechanisms))
    mechanism, first = messages.parse_sasl_initial_response(await _read_response(client))
    await client.stream.send(
        messages.encode_authentication_sasl_continue(exchange.handle_client_first(mechanism, first))
    )
    proof = await _read_response(client)
    attempt.count()  # must not await before the proof is verified, or concurrent logins could exceed the limit
    await client.stream.send(messages.encode_authentication_sasl_final(exchange.handle_client_final(proof)))


async def _read_response(client: ClientConnection) -> bytes:
    message = await client.stream.read_message(_MAX_MESSAGE_BYTES)
    if message.type != messages.PASSWORD_MESSAGE:
        raise ProtocolError("the client did not answer the authentication request with a password message")
    return message.body


def _parse_verifier(access: Access) -> ScramVerifier:
    if access.rejection is not None:
        raise Denied(access.rejection)
    verifier = ScramVerifier.parse(access.verifier)
    if verifier is None:
        raise Denied("The password of this role is not stored as SCRAM-SHA-256; set it again.")
    return verifier


def _can_log_in(access: Access) -> bool:
    """An expired password is treated like a wrong one."""
    return access.is_known and (access.valid_until is None or access.valid_until > clock.now())


def _check_network(access: Access, origin: ClientOrigin) -> None:
    """A client on the local socket is in no network, and counts as connecting from the loopback address."""
    blocked = None if origin.is_local else access.blocked_networks.explain(is_private=origin.is_private)
    if blocked is not None:
        raise Denied(blocked)
    if access.allowed_networks is None:
        return
    address = origin.address or LOOPBACK
    client_address = ip_address(address)
    if any(client_address in ip_network(network) for network in access.allowed_networks):
        return
    message = f"The address {address} is not allowed by the project's allowed_ips."
    if origin.is_local:
        message += f" Connections on the local socket count as coming from {LOOPBACK}: add it to allowed_ips."
    raise Denied(message)
