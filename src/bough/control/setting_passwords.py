"""Passwords are set by a link in a mail, by the operator's first link, or by who knows the old one.

Whichever way, all other sessions of the person end, and no other link of theirs works any more.
"""

from dataclasses import replace

from bough import clock
from bough.access import passwords
from bough.control import accounts, mail, signing_in, welcoming
from bough.control.accounts import SignedIn, Visitor
from bough.control.parts import Parts
from bough.domain import email_address
from bough.domain.link import Link, Purpose
from bough.domain.user import User
from bough.errors import Denied, Invalid, NotFound, Taken
from bough.store.queries import Duplicate
from bough.store.store import Rows

_GONE = "This link was used already, or is too old. Ask for another."
_TEXT = """Somebody, probably you, asked to set a new password for the account with this address at {home}.
To do so, open this page within two hours:

  {reset}

If it was not you, you need not do anything: the password stays as it is.
"""


class SettingPasswords:
    def __init__(self, parts: Parts, visitor: Visitor) -> None:
        self._parts = parts
        self._visitor = visitor

    async def ask(self, email: str) -> str:
        """A mail goes to the address if it has an account. Everything else is done either way."""
        parsed = email_address.parse(email)
        self._parts.attempts.to_ask_for_mail(self._visitor.address, parsed)
        async with self._parts.store.transaction() as rows:
            user = await rows.users.with_email(parsed)
            token = await accounts.add_link(rows, self._parts.keys, Purpose.RESET, parsed, user=user)
            text = _TEXT.format(home=self._link(""), reset=self._link(f"/reset?token={token}"))
            await mail.put(rows, self._parts.vault, user.email if user else None, "Set a new password at Bough", text)
            await self._visitor.record(accounts.nobody(parsed, user), "password_reset_asked").write(rows)
        return parsed

    async def asked(self, token: str, purpose: Purpose = Purpose.RESET) -> Link | None:
        """What a link is for, as long as it can be used."""
        self._parts.attempts.to_follow_a_link(self._visitor.address)
        async with self._parts.store.read() as rows:
            found = await rows.links.get(self._parts.keys.digest(token), purpose, clock.now())
        return found if found and found.user_id else None

    async def reset(self, token: str, password: str) -> str:
        """A new session, and the only one; its token."""
        link = await self._usable(token, Purpose.RESET)
        passwords.check(password, link.email)
        digest = await self._parts.passwords.digest(password)
        async with self._parts.store.transaction() as rows:
            user = await self._used(rows, link)
            return await self._set(rows, replace(user, password_digest=digest), "reset_password")

    async def welcome(self, token: str, email: str, password: str) -> str:
        """The operator's first: their address and password, and a session."""
        link = await self._usable(token, Purpose.WELCOME)
        parsed = email_address.parse(email)
        passwords.check(password, parsed)
        digest = await self._parts.passwords.digest(password)
        async with self._parts.store.transaction() as rows:
            user = replace(await self._used(rows, link), email=parsed, password_digest=digest)
            begun = await self._set(rows, user, "welcome_operator")
        welcoming.forget(self._parts.settings)
        return begun

    async def change(self, signed: SignedIn, old: str, new: str) -> None:
        """Who knows the old one; other browsers are signed out."""
        self._parts.attempts.to_sign_in(self._visitor.address, signed.user.email)
        passwords.check(new, signed.user.email)
        if not await self._parts.passwords.matches(signed.user.password_digest, old):
            raise Denied("The old password is wrong.")
        digest = await self._parts.passwords.digest(new)
        async with self._parts.store.transaction() as rows:
            user = await rows.users.held(signed.user.id)
            if user is None or user.password_digest != signed.user.password_digest:
                raise Invalid("The password was changed meanwhile. Sign in again.")
            await rows.users.save(replace(user, password_digest=digest, updated_at=clock.now()))
            await rows.sessions.end_all(user.id, but=signed.session.digest)
            await rows.links.void(user.id)
            await self._visitor.record(accounts.person(user), "change_password").write(rows)

    async def _usable(self, token: str, purpose: Purpose) -> Link:
        link = await self.asked(token, purpose)
        if link is None:
            raise NotFound(_GONE)
        return link

    async def _used(self, rows: Rows, link: Link) -> User:
        if link.user_id is None or await rows.links.use(link.digest) != 1:
            raise NotFound(_GONE)
        user = await rows.users.held(link.user_id)
        if user is None:
            raise NotFound(_GONE)
        return user

    async def _set(self, rows: Rows, user: User, action: str) -> str:
        try:
            await rows.users.save(replace(user, updated_at=clock.now()))
        except Duplicate:
            raise Taken(f"Somebody else has an account with the address {user.email}.") from None
        await rows.sessions.end_all(user.id)
        await rows.links.void(user.id)
        await self._visitor.record(accounts.person(user), action).write(rows)
        return await signing_in.begin(self._parts, rows, user, self._visitor)

    def _link(self, path: str) -> str:
        return mail.link(self._parts.settings, path)
