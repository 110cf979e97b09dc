"""Sign in, stay signed in, sign out: one session a browser, known by a secret in its cookie."""

import secrets
from dataclasses import replace
from datetime import timedelta

from bough import clock
from bough.control.people import accounts
from bough.control.people.accounts import SignedInUser, WebClient
from bough.control.services import Services
from bough.domain import email_address
from bough.domain.session import Session
from bough.domain.user import User
from bough.errors import Invalid, Unauthenticated
from bough.store.store import Rows

MAX_USER_AGENT_LENGTH = 200
_WRONG = "The e-mail address or the password is wrong."


async def sign_in(services: Services, client: WebClient, email: str, password: str) -> str:
    """The token of a new session. An unknown address and a wrong password look the same and take as long."""
    parsed = _parse_email(email)
    services.attempt_limits.take_sign_in(client.address, parsed)
    async with services.store.read() as rows:
        user = await rows.users.get_by_email(parsed)
    is_right = await services.passwords.matches(user.password_digest if user else None, password)
    if user is None or not is_right:
        await _audit_rejection(services, client, parsed, user)
        raise Unauthenticated(_WRONG)
    stronger = await _rehash_if_outdated(services, user, password)
    async with services.store.transaction() as rows:
        fresh = await rows.users.get_for_update(user.id)
        if fresh is None or fresh.password_digest != user.password_digest:  # it was changed meanwhile
            raise Unauthenticated(_WRONG)
        if stronger is not None:
            await rows.users.save(replace(fresh, password_digest=stronger))
        token = await start_session(services, rows, fresh, client)
    services.attempt_limits.refund_sign_in(client.address, parsed)
    return token


async def find_signed_in_user(services: Services, token: str) -> SignedInUser | None:
    if not token.isascii():
        return None
    async with services.store.read() as rows:
        found = await rows.sessions.get(services.keys.digest(token), clock.now())
        if found is None:
            return None
        session, user = found
        return SignedInUser(user=user, session=session, principal=await accounts.load_principal(rows, user))


async def sign_out(services: Services, client: WebClient, signed_in: SignedInUser) -> None:
    async with services.store.transaction() as rows:
        await rows.sessions.delete(signed_in.session.digest)
        await client.audit_record(accounts.person_actor(signed_in.user), "sign_out").write(rows)


async def sign_out_everywhere(services: Services, client: WebClient, signed_in: SignedInUser) -> None:
    """Here, too."""
    async with services.store.transaction() as rows:
        ended = await rows.sessions.delete_by_user(signed_in.user.id)
        record = client.audit_record(accounts.person_actor(signed_in.user), "sign_out_everywhere")
        record.add_details(sessions=ended)
        await record.write(rows)


async def _rehash_if_outdated(services: Services, user: User, password: str) -> str | None:
    """A digest that takes the work we ask for today, where the one we have takes less."""
    if user.password_digest is None or not services.passwords.needs_rehash(user.password_digest):
        return None
    return await services.passwords.digest(password)


async def _audit_rejection(services: Services, client: WebClient, email: str, user: User | None) -> None:
    async with services.store.transaction() as rows:
        await client.audit_record(accounts.anonymous_actor(email, user), "sign_in_refused").write(rows)


async def start_session(services: Services, rows: Rows, user: User, client: WebClient) -> str:
    """A session with a secret of its own: none that was there before becomes one."""
    token = secrets.token_urlsafe(32)
    now = clock.now()
    session = Session(
        digest=services.keys.digest(token),
        user_id=user.id,
        address=client.address,
        agent=client.user_agent[:MAX_USER_AGENT_LENGTH],
        created_at=now,
        expires_at=now + timedelta(days=services.settings.session_days),
    )
    await rows.sessions.add(session)
    await client.audit_record(accounts.person_actor(user), "sign_in").write(rows)
    return token


def _parse_email(email: str) -> str:
    """What is no address is nobody's."""
    try:
        return email_address.parse_email_address(email)
    except Invalid:
        return ""
