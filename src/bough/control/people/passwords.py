"""Passwords are set by a link in a mail, by the operator's first link, or by who knows the old one.

Whichever way, all other sessions of the person end, and no other link of theirs works any more.
"""

from dataclasses import replace

from bough import clock
from bough.access import passwords
from bough.control.people import accounts, operator_link, sign_in
from bough.control.people.accounts import SignedInUser, WebClient
from bough.control.platform import mail
from bough.control.services import Services
from bough.domain import email_address
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.user import User
from bough.errors import Conflict, Denied, Invalid, NotFound
from bough.store.queries import Duplicate
from bough.store.store import Rows

_GONE = "This link was used already, or is too old. Ask for another."
_TEXT = """Somebody, probably you, asked to set a new password for the account with this address at {home}.
To do so, open this page within two hours:

  {reset}

If it was not you, you need not do anything: the password stays as it is.
"""


class PasswordChanges:
    def __init__(self, services: Services, client: WebClient) -> None:
        self._services = services
        self._client = client

    async def request_reset(self, email: str) -> str:
        """A mail goes to the address if it has an account. Everything else is done either way."""
        parsed = email_address.parse_email_address(email)
        self._services.attempt_limits.take_mail_request(self._client.address, parsed)
        async with self._services.store.transaction() as rows:
            user = await rows.users.get_by_email(parsed)
            token = await accounts.add_link(rows, self._services.keys, LinkPurpose.RESET, parsed, user=user)
            text = _TEXT.format(home=self._link(""), reset=self._link(f"/reset?token={token}"))
            await mail.enqueue_mail(
                rows, self._services.vault, user.email if user else None, "Set a new password at Bough", text
            )
            await self._client.audit_record(accounts.anonymous_actor(parsed, user), "password_reset_asked").write(rows)
        return parsed

    async def find_link(self, token: str, purpose: LinkPurpose = LinkPurpose.RESET) -> OneTimeLink | None:
        """What a link is for, as long as it can be used."""
        self._services.attempt_limits.take_link_visit(self._client.address)
        async with self._services.store.read() as rows:
            found = await rows.links.get(self._services.keys.digest(token), purpose, clock.now())
        return found if found and found.user_id else None

    async def reset(self, token: str, password: str) -> str:
        """A new session, and the only one; its token."""
        link = await self._require_link(token, LinkPurpose.RESET)
        passwords.check_strength(password, link.email)
        digest = await self._services.passwords.digest(password)
        async with self._services.store.transaction() as rows:
            user = await self._use_link(rows, link)
            return await self._set(rows, replace(user, password_digest=digest), "reset_password")

    async def set_operator_password(self, token: str, email: str, password: str) -> str:
        """The operator's first: their address and password, and a session."""
        link = await self._require_link(token, LinkPurpose.WELCOME)
        parsed = email_address.parse_email_address(email)
        passwords.check_strength(password, parsed)
        digest = await self._services.passwords.digest(password)
        async with self._services.store.transaction() as rows:
            user = replace(await self._use_link(rows, link), email=parsed, password_digest=digest)
            begun = await self._set(rows, user, "welcome_operator")
        operator_link.remove_operator_link(self._services.settings)
        return begun

    async def change(self, signed_in: SignedInUser, old_password: str, new_password: str) -> None:
        """Who knows the old one; other browsers are signed out."""
        self._services.attempt_limits.take_sign_in(self._client.address, signed_in.user.email)
        passwords.check_strength(new_password, signed_in.user.email)
        if not await self._services.passwords.matches(signed_in.user.password_digest, old_password):
            raise Denied("The old password is wrong.")
        digest = await self._services.passwords.digest(new_password)
        async with self._services.store.transaction() as rows:
            user = await rows.users.get_for_update(signed_in.user.id)
            if user is None or user.password_digest != signed_in.user.password_digest:
                raise Invalid("The password was changed meanwhile. Sign in again.")
            await rows.users.save(replace(user, password_digest=digest, updated_at=clock.now()))
            await rows.sessions.delete_by_user(user.id, except_digest=signed_in.session.digest)
            await rows.links.delete_by_user(user.id)
            await self._client.audit_record(accounts.person_actor(user), "change_password").write(rows)

    async def _require_link(self, token: str, purpose: LinkPurpose) -> OneTimeLink:
        link = await self.find_link(token, purpose)
        if link is None:
            raise NotFound(_GONE)
        return link

    async def _use_link(self, rows: Rows, link: OneTimeLink) -> User:
        if link.user_id is None or await rows.links.consume(link.digest) != 1:
            raise NotFound(_GONE)
        user = await rows.users.get_for_update(link.user_id)
        if user is None:
            raise NotFound(_GONE)
        return user

    async def _set(self, rows: Rows, user: User, action: str) -> str:
        try:
            await rows.users.save(replace(user, updated_at=clock.now()))
        except Duplicate:
            raise Conflict(f"Somebody else has an account with the address {user.email}.") from None
        await rows.sessions.delete_by_user(user.id)
        await rows.links.delete_by_user(user.id)
        await self._client.audit_record(accounts.person_actor(user), action).write(rows)
        return await sign_in.start_session(self._services, rows, user, self._client)

    def _link(self, path: str) -> str:
        return mail.page_url(self._services.settings, path)
