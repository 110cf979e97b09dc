"""Sign up: an account is made when its address was shown to be one's own, by a link in a mail.

Until then there is only the link; the password is chosen by whoever follows it, so nobody prepares an account with the
address of another. Whether an address has an account is told to whoever reads its mail, to nobody else.
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


async def request_sign_up(services: Services, client: WebClient, email: str, next_page: str = "") -> str:
    """The address that a mail goes to. Everything done is the same whether it has an account or not.

    `then` is the page of ours to which the link in the mail leads in the end, if it is not the usual one.
    """
    _check_is_open(services)
    parsed = email_address.parse_email_address(email)
    services.attempt_limits.take_mail_request(client.address, parsed)
    async with services.store.transaction() as rows:
        known = await rows.users.get_by_email(parsed)
        token = await accounts.add_link(rows, services.keys, LinkPurpose.SIGN_UP, parsed)
        # The token of someone who has an account goes nowhere.
        text = (_NEW if known is None else _KNOWN).format(
            home=_link(services, ""),
            finish=_link(services, "/welcome/finish", token=token, next=next_page),
            sign_in=_link(services, "/signin", next=next_page),
            forgot=_link(services, "/forgot"),
        )
        subject = "Finish signing up" if known is None else "You have an account already"
        await mail.enqueue_mail(rows, services.vault, parsed, f"{subject} at Bough", text)
        await client.audit_record(accounts.anonymous_actor(parsed), "sign_up_asked").write(rows)
    return parsed


async def find_sign_up_link(services: Services, client: WebClient, token: str) -> OneTimeLink | None:
    """What a link is for, as long as it can be used."""
    services.attempt_limits.take_link_visit(client.address)
    async with services.store.read() as rows:
        return await rows.links.get(services.keys.digest(token), LinkPurpose.SIGN_UP, clock.now())


async def complete_sign_up(services: Services, client: WebClient, token: str, name: str, password: str) -> str:
    """The account is made, and a session begins, whose token this is."""
    _check_is_open(services)
    link = await find_sign_up_link(services, client, token)
    if link is None:
        raise NotFound(_GONE)
    _check_name(name)
    passwords.check_strength(password, link.email)
    digest = await services.passwords.digest(password)
    async with services.store.transaction() as rows:
        if await rows.links.consume(link.digest) != 1:
            raise NotFound(_GONE)
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
    """Whoever has the link reads the mail of the address: the account is made and joins, and a session begins."""
    if services.settings.sign_up == "closed":
        raise Denied("New accounts are made by the operator here. Ask for one, then accept the invitation.")
    invitation = await find_invitation(services, client, token)
    if invitation is None:
        raise NotFound("This invitation was used already, taken back, or is too old. Ask for another.")
    _check_name(name)
    passwords.check_strength(password, invitation.email)
    digest = await services.passwords.digest(password)
    async with services.store.transaction() as rows:
        if await rows.users.get_by_email(invitation.email):
            raise Conflict(f"{invitation.email} has an account already. Sign in to accept the invitation.")
        user = await accounts.add_account(rows, invitation.email, name, digest)
        await invitations.join(rows, invitation, user.id, clock.now())
        record = client.audit_record(accounts.person_actor(user), "sign_up")
        record.add_details(org_id=invitation.org_id, role=invitation.role)
        await record.write(rows)
        return await sign_in.start_session(services, rows, user, client)


def _check_is_open(services: Services) -> None:
    if services.settings.sign_up != "open":
        raise Denied("Accounts are made by invitation here. Ask the operator, or an admin of an organization.")


def _link(services: Services, path: str, **asked: str) -> str:
    said = urlencode({name: value for name, value in asked.items() if value}, safe="/")
    return mail.page_url(services.settings, f"{path}?{said}" if said else path)


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise Invalid(f"The name may have up to {MAX_NAME_LENGTH} letters, in one line.")
