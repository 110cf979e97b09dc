"""Sign up: an account is made when its address was shown to be one's own, by a link in a mail.

Until then there is only the link; the password is chosen by whoever follows it, so nobody prepares an account with the
address of another. Whether an address has an account is told to whoever reads its mail, to nobody else.
"""

from urllib.parse import urlencode

from bough import clock
from bough.access import passwords
from bough.control import accounts, invitations, mail, signing_in
from bough.control.accounts import Visitor
from bough.control.parts import Parts
from bough.domain import email_address
from bough.domain.invitation import Invitation
from bough.domain.link import Link, Purpose
from bough.errors import Denied, Invalid, NotFound, Taken

LONGEST_NAME = 64
_GONE = "This link was used already, or is too old. Sign up again to get another."
_KNOWN = """Somebody, probably you, asked for an account at {home} with this address.
It has one already. Sign in:

  {sign_in}

If you do not remember the password, set a new one:

  {forgot}

If it was not you, you need not do anything.
"""
_NEW = """Somebody, probably you, asked for an account at {home} with this address.
To make it, open this page within a day:

  {finish}

If it was not you, you need not do anything.
"""


class SigningUp:
    def __init__(self, parts: Parts, visitor: Visitor) -> None:
        self._parts = parts
        self._visitor = visitor

    async def ask(self, email: str, then: str = "") -> str:
        """The address that a mail goes to. Everything done is the same whether it has an account or not.

        `then` is the page of ours to which the link in the mail leads in the end, if it is not the usual one.
        """
        self._check_is_open()
        parsed = email_address.parse(email)
        self._parts.attempts.to_ask_for_mail(self._visitor.address, parsed)
        async with self._parts.store.transaction() as rows:
            known = await rows.users.with_email(parsed)
            token = await accounts.add_link(rows, self._parts.keys, Purpose.SIGN_UP, parsed)
            # The token of someone who has an account goes nowhere.
            text = (_NEW if known is None else _KNOWN).format(
                home=self._link(""),
                finish=self._link("/welcome/finish", token=token, next=then),
                sign_in=self._link("/signin", next=then),
                forgot=self._link("/forgot"),
            )
            subject = "Finish signing up" if known is None else "You have an account already"
            await mail.put(rows, self._parts.vault, parsed, f"{subject} at Bough", text)
            await self._visitor.record(accounts.nobody(parsed), "sign_up_asked").write(rows)
        return parsed

    async def asked(self, token: str) -> Link | None:
        """What a link is for, as long as it can be used."""
        self._parts.attempts.to_follow_a_link(self._visitor.address)
        async with self._parts.store.read() as rows:
            return await rows.links.get(self._parts.keys.digest(token), Purpose.SIGN_UP, clock.now())

    async def finish(self, token: str, name: str, password: str) -> str:
        """The account is made, and a session begins, whose token this is."""
        self._check_is_open()
        link = await self.asked(token)
        if link is None:
            raise NotFound(_GONE)
        _check_name(name)
        passwords.check(password, link.email)
        digest = await self._parts.passwords.digest(password)
        async with self._parts.store.transaction() as rows:
            if await rows.links.use(link.digest) != 1:
                raise NotFound(_GONE)
            user = await accounts.add(rows, link.email, name, digest)
            await self._visitor.record(accounts.person(user), "sign_up").write(rows)
            return await signing_in.begin(self._parts, rows, user, self._visitor)

    async def invitation(self, token: str) -> Invitation | None:
        self._parts.attempts.to_follow_a_link(self._visitor.address)
        async with self._parts.store.read() as rows:
            return await invitations.by_token(rows, self._parts.keys, token)

    async def accept_as_new(self, token: str, name: str, password: str) -> str:
        """Whoever has the link reads the mail of the address: the account is made and joins, and a session begins."""
        if self._parts.settings.sign_up == "closed":
            raise Denied("New accounts are made by the operator here. Ask for one, then accept the invitation.")
        invitation = await self.invitation(token)
        if invitation is None:
            raise NotFound("This invitation was used already, taken back, or is too old. Ask for another.")
        _check_name(name)
        passwords.check(password, invitation.email)
        digest = await self._parts.passwords.digest(password)
        async with self._parts.store.transaction() as rows:
            if await rows.users.with_email(invitation.email):
                raise Taken(f"{invitation.email} has an account already. Sign in to accept the invitation.")
            user = await accounts.add(rows, invitation.email, name, digest)
            await invitations.join(rows, invitation, user.id, clock.now())
            record = self._visitor.record(accounts.person(user), "sign_up")
            record.about(org_id=invitation.org_id, role=invitation.role)
            await record.write(rows)
            return await signing_in.begin(self._parts, rows, user, self._visitor)

    def _check_is_open(self) -> None:
        if self._parts.settings.sign_up != "open":
            raise Denied("Accounts are made by invitation here. Ask the operator, or an admin of an organization.")

    def _link(self, path: str, **asked: str) -> str:
        said = urlencode({name: value for name, value in asked.items() if value}, safe="/")
        return mail.link(self._parts.settings, f"{path}?{said}" if said else path)


def _check_name(name: str) -> None:
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise Invalid(f"The name may have up to {LONGEST_NAME} letters, in one line.")
