"""Sets passwords: by a mailed link, by the operator's first link, or with the old password.

Each way ends all other sessions of the user and invalidates their other links.
"""

from dataclasses import replace

from bough import clock
from bough.access import passwords
from bough.control.people import accounts, sign_in
from bough.control.people.accounts import SignedInUser, WebClient
from bough.control.people.operator import remove_operator_link
from bough.control.platform import mail
from bough.control.services import Services
from bough.domain import email_address
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.user import User
from bough.errors import Conflict, Denied, Invalid, NotFound
from bough.store.queries import Duplicate
from bough.store.store import Rows

_EXPIRED = "This link was already used or has expired. Request another one."
_TEXT = """A new password was requested for the account with this address at {home}.
To set one, open this page within two hours:

  {reset}

If you did not request this, you can ignore this e-mail: the password stays as it is.
"""


async def request_password_reset(services: Services, client: WebClient, email: str) -> str:
    """Send a mail if the address has an account. All other work is the same either way."""
    parsed = email_address.parse_email_address(email)
    services.attempt_limits.take_mail_request(client.address, parsed)
    async with services.store.transaction() as rows:
        user = await rows.users.get_by_email(parsed)
        token = await accounts.add_link(rows, services.keys, LinkPurpose.RESET, parsed, user=user)
        text = _TEXT.format(home=_link(services, ""), reset=_link(services, f"/reset?token={token}"))
        await mail.enqueue_mail(rows, services.vault, user.email if user else None, "Set a new password at Bough", text)
        await client.audit_record(accounts.anonymous_actor(parsed, user), "password_reset_asked").write(rows)
    return parsed


async def find_password_link(
    services: Services, client: WebClient, token: str, purpose: LinkPurpose = LinkPurpose.RESET
) -> OneTimeLink | None:
    """Return the link of a token while it can be used."""
    services.attempt_limits.take_link_visit(client.address)
    async with services.store.read() as rows:
        found = await rows.links.get(services.keys.digest(token), purpose, clock.now())
    return found if found and found.user_id else None


async def reset_password(services: Services, client: WebClient, token: str, password: str) -> str:
    """Set the password, end all sessions, and return the token of a new one."""
    link = await _require_link(services, client, token, LinkPurpose.RESET)
    passwords.check_strength(password, link.email)
    digest = await services.passwords.digest(password)
    async with services.store.transaction() as rows:
        user = await _use_link(rows, link)
        return await _save_password(services, client, rows, replace(user, password_digest=digest), "reset_password")


async def set_operator_password(services: Services, client: WebClient, token: str, email: str, password: str) -> str:
    """Set the operator's address and first password; return the token of a new session."""
    link = await _require_link(services, client, token, LinkPurpose.WELCOME)
    parsed = email_address.parse_email_address(email)
    passwords.check_strength(password, parsed)
    digest = await services.passwords.digest(password)
    async with services.store.transaction() as rows:
        user = replace(await _use_link(rows, link), email=parsed, password_digest=digest)
        session_token = await _save_password(services, client, rows, user, "welcome_operator")
    remove_operator_link(services.settings)
    return session_token


async def change_password(
    services: Services, client: WebClient, signed_in: SignedInUser, old_password: str, new_password: str
) -> None:
    """Change the password, given the old one. Sessions of other browsers end."""
    services.attempt_limits.take_sign_in(client.address, signed_in.user.email)
    passwords.check_strength(new_password, signed_in.user.email)
    if not await services.passwords.matches(signed_in.user.password_digest, old_password):
        raise Denied("The old password is wrong.")
    digest = await services.passwords.digest(new_password)
    async with services.store.transaction() as rows:
        user = await rows.users.get_for_update(signed_in.user.id)
        if user is None or user.password_digest != signed_in.user.password_digest:
            raise Invalid("The password was changed in the meantime. Sign in again.")
        await rows.users.save(replace(user, password_digest=digest, updated_at=clock.now()))
        await rows.sessions.delete_by_user(user.id, except_digest=signed_in.session.digest)
        await rows.links.delete_by_user(user.id)
        await client.audit_record(accounts.person_actor(user), "change_password").write(rows)


async def _require_link(services: Services, client: WebClient, token: str, purpose: LinkPurpose) -> OneTimeLink:
    link = await find_password_link(services, client, token, purpose)
    if link is None:
        raise NotFound(_EXPIRED)
    return link


async def _use_link(rows: Rows, link: OneTimeLink) -> User:
    if link.user_id is None or await rows.links.consume(link.digest) != 1:
        raise NotFound(_EXPIRED)
    user = await rows.users.get_for_update(link.user_id)
    if user is None:
        raise NotFound(_EXPIRED)
    return user


async def _save_password(services: Services, client: WebClient, rows: Rows, user: User, action: str) -> str:
    try:
        await rows.users.save(replace(user, updated_at=clock.now()))
    except Duplicate:
        raise Conflict(f"Another account has the address {user.email}.") from None
    await rows.sessions.delete_by_user(user.id)
    await rows.links.delete_by_user(user.id)
    await client.audit_record(accounts.person_actor(user), action).write(rows)
    return await sign_in.start_session(services, rows, user, client)


def _link(services: Services, path: str) -> str:
    return mail.page_url(services.settings, path)
