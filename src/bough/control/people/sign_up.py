"""Sign-up: an account is created only after a mailed link has verified its address.

Until then only the link exists. The person who follows it chooses the password, so no one can prepare an account with
another person's address. Only a mail to the address reveals whether it has an account.
"""

from urllib.parse import urlencode

from bough import clock
from bough.access import passwords
from bough.control.people import accounts, invitations, sign_in
from bough.control.people.accounts import WebClient
from bough.control.platform import mail
from bough.control.services import Services
from bough.domain import email_address
from bough.domain.invitation import Invitation
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.errors import Conflict, Denied, Invalid, NotFound

MAX_NAME_LENGTH = 64
_EXPIRED = "This link was already used or has expired. Sign up again to get another one."
_KNOWN = """An account at {home} was requested with this address.
It already has one. Sign in:

  {sign_in}

If you do not remember the password, set a new one:

  {forgot}

If you did not request this, you can ignore this e-mail.
"""
_NEW = """An account at {home} was requested with this address.
To create it, open this page within a day:

  {finish}

If you did not request this, you can ignore this e-mail.
"""


async def request_sign_up(services: Services, client: WebClient, email: str, next_page: str = "") -> str:
    """Send a mail and return its address. All work is the same whether the address has an account or not.

    `next_page` is the page to which the link in the mail finally leads, if not the default one.
    """
    _check_is_open(services)
    parsed = email_address.parse_email_address(email)
    services.attempt_limits.take_mail_request(client.address, parsed)
    async with services.store.transaction() as rows:
        known = await rows.users.get_by_email(parsed)
        token = await accounts.add_link(rows, services.keys, LinkPurpose.SIGN_UP, parsed)
        # The token for an existing account is never sent.
        text = (_NEW if known is None else _KNOWN).format(
            home=_link(services, ""),
            finish=_link(services, "/welcome/finish", token=token, next=next_page),
            sign_in=_link(services, "/signin", next=next_page),
            forgot=_link(services, "/forgot"),
        )
        subject = "Finish signing up" if known is None else "You already have an account"
        await mail.enqueue_mail(rows, services.vault, parsed, f"{subject} at Bough", text)
        await client.audit_record(accounts.anonymous_actor(parsed), "sign_up_asked").write(rows)
    return parsed


async def find_sign_up_link(services: Services, client: WebClient, token: str) -> OneTimeLink | None:
    """Return the link of a token while it can be used."""
    services.attempt_limits.take_link_visit(client.address)
    async with services.store.read() as rows:
        return await rows.links.get(services.keys.digest(token), LinkPurpose.SIGN_UP, clock.now())


async def complete_sign_up(services: Services, client: WebClient, token: str, name: str, password: str) -> str:
    """Create the account and return the token of a new session."""
    _check_is_open(services)
    link = await find_sign_up_link(services, client, token)
    if link is None:
        raise NotFound(_EXPIRED)
    _check_name(name)
    passwords.check_strength(password, link.email)
    digest = await services.passwords.digest(password)
    async with services.store.transaction() as rows:
        if await rows.links.consume(link.digest) != 1:
            raise NotFound(_EXPIRED)
        user = await accounts.add_account(rows, link.email, name, digest)
        await client.audit_record(accounts.person_actor(user), "sign_up").write(rows)
        return await sign_in.start_session(services, rows, user, client)


async def find_invitation(services: Services, client: WebClient, token: str) -> Invitation | None:
    services.attempt_limits.take_link_visit(client.address)
    async with services.store.read() as rows:
        return await invitations.find_by_token(rows, services.keys, token)


async def accept_invitation_as_new_user(
    services: Services, client: WebClient, token: str, name: str, password: str
) -> str:
    """Create an account that joins the organization; return a session token. The link has verified the address."""
    if services.settings.sign_up == "closed":
        raise Denied("Only the operator creates accounts here. Ask for one, then accept the invitation.")
    invitation = await find_invitation(services, client, token)
    if invitation is None:
        raise NotFound("This invitation was already used, was revoked or has expired. Ask for another one.")
    _check_name(name)
    passwords.check_strength(password, invitation.email)
    digest = await services.passwords.digest(password)
    async with services.store.transaction() as rows:
        if await rows.users.get_by_email(invitation.email):
            raise Conflict(f"{invitation.email} already has an account. Sign in to accept the invitation.")
        user = await accounts.add_account(rows, invitation.email, name, digest)
        await invitations.join(rows, invitation, user.id, clock.now())
        record = client.audit_record(accounts.person_actor(user), "sign_up")
        record.add_details(org_id=invitation.org_id, role=invitation.role)
        await record.write(rows)
        return await sign_in.start_session(services, rows, user, client)


def _check_is_open(services: Services) -> None:
    if services.settings.sign_up != "open":
        raise Denied("Accounts are created by invitation here. Ask the operator or an admin of an organization.")


def _link(services: Services, path: str, **parameters: str) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value}, safe="/")
    return mail.page_url(services.settings, f"{path}?{query}" if query else path)


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise Invalid(f"The name may have up to {MAX_NAME_LENGTH} characters, in one line.")
