"""Sign in, stay signed in, sign out: one session a browser, known by a secret in its cookie."""

import secrets
from dataclasses import replace
from datetime import timedelta

from bough import clock
from bough.control import accounts
from bough.control.accounts import SignedIn, Visitor
from bough.control.parts import Parts
from bough.domain import email_address
from bough.domain.session import Session
from bough.domain.user import User
from bough.errors import Invalid, Unauthenticated
from bough.store.store import Rows

LONGEST_AGENT = 200
_WRONG = "The e-mail address or the password is wrong."


class SigningIn:
    def __init__(self, parts: Parts, visitor: Visitor) -> None:
        self._parts = parts
        self._visitor = visitor

    async def sign_in(self, email: str, password: str) -> str:
        """The token of a new session. An unknown address and a wrong password look the same and take as long."""
        parsed = _parsed(email)
        self._parts.attempts.to_sign_in(self._visitor.address, parsed)
        async with self._parts.store.read() as rows:
            user = await rows.users.with_email(parsed)
        is_right = await self._parts.passwords.matches(user.password_digest if user else None, password)
        if user is None or not is_right:
            await self._note_refusal(parsed, user)
            raise Unauthenticated(_WRONG)
        stronger = await self._stronger(user, password)
        async with self._parts.store.transaction() as rows:
            fresh = await rows.users.held(user.id)
            if fresh is None or fresh.password_digest != user.password_digest:  # it was changed meanwhile
                raise Unauthenticated(_WRONG)
            if stronger is not None:
                await rows.users.save(replace(fresh, password_digest=stronger))
            token = await begin(self._parts, rows, fresh, self._visitor)
        self._parts.attempts.signed_in(self._visitor.address, parsed)
        return token

    async def signed_in(self, token: str) -> SignedIn | None:
        if not token.isascii():
            return None
        async with self._parts.store.read() as rows:
            found = await rows.sessions.get(self._parts.keys.digest(token), clock.now())
            if found is None:
                return None
            session, user = found
            return SignedIn(user=user, session=session, principal=await accounts.principal_of(rows, user))

    async def sign_out(self, signed: SignedIn) -> None:
        async with self._parts.store.transaction() as rows:
            await rows.sessions.end(signed.session.digest)
            await self._visitor.record(accounts.person(signed.user), "sign_out").write(rows)

    async def sign_out_everywhere(self, signed: SignedIn) -> None:
        """Here, too."""
        async with self._parts.store.transaction() as rows:
            ended = await rows.sessions.end_all(signed.user.id)
            record = self._visitor.record(accounts.person(signed.user), "sign_out_everywhere")
            record.about(sessions=ended)
            await record.write(rows)

    async def _stronger(self, user: User, password: str) -> str | None:
        """A digest that takes the work we ask for today, where the one we have takes less."""
        if user.password_digest is None or not self._parts.passwords.is_outdated(user.password_digest):
            return None
        return await self._parts.passwords.digest(password)

    async def _note_refusal(self, email: str, user: User | None) -> None:
        async with self._parts.store.transaction() as rows:
            await self._visitor.record(accounts.nobody(email, user), "sign_in_refused").write(rows)


async def begin(parts: Parts, rows: Rows, user: User, visitor: Visitor) -> str:
    """A session with a secret of its own: none that was there before becomes one."""
    token = secrets.token_urlsafe(32)
    now = clock.now()
    session = Session(
        digest=parts.keys.digest(token),
        user_id=user.id,
        address=visitor.address,
        agent=visitor.agent[:LONGEST_AGENT],
        created_at=now,
        expires_at=now + timedelta(days=parts.settings.session_days),
    )
    await rows.sessions.add(session)
    await visitor.record(accounts.person(user), "sign_in").write(rows)
    return token


def _parsed(email: str) -> str:
    """What is no address is nobody's."""
    try:
        return email_address.parse(email)
    except Invalid:
        return ""
