"""What the forms of the account page do. Each goes back to the page, except the one that shows a new key."""

from starlette.responses import Response

from bough.control.accounts import SignedIn
from bough.control.invitations import Invitations
from bough.control.keys import PersonalKeys
from bough.control.organizations import Organizations
from bough.control.setting_passwords import SettingPasswords
from bough.errors import Invalid, PlatformError
from bough.ids import InvitationId
from bough.pages import account
from bough.pages.visit import Visit

LONGEST_NAME = 64


async def create_key(visit: Visit, signed: SignedIn) -> Response:
    name = visit.form.line("name")
    try:
        _check_name(name, "key")
        _key, token = await PersonalKeys(visit.desk(signed, "create_api_key")).create(name)
    except PlatformError as error:
        return await account.again(visit, signed, "keys", error, name)
    return visit.page("key.html", name=name, token=token)


async def revoke_key(visit: Visit, signed: SignedIn) -> Response:
    try:
        await PersonalKeys(visit.desk(signed, "revoke_api_key")).revoke(_number(visit.form.line("key")))
    except PlatformError as error:
        return await account.again(visit, signed, "keys", error)
    return account.done(visit, "key-revoked")


async def create_organization(visit: Visit, signed: SignedIn) -> Response:
    name = visit.form.line("name")
    try:
        _check_name(name, "organization")
        await Organizations(visit.desk(signed, "create_organization")).create(name)
    except PlatformError as error:
        return await account.again(visit, signed, "organizations", error, name)
    return account.done(visit, "organization")


async def accept_invitation(visit: Visit, signed: SignedIn) -> Response:
    try:
        invitation = InvitationId.parse(visit.form.line("invitation"))
        await Invitations(visit.desk(signed, "accept_invitation")).accept(invitation)
    except PlatformError as error:
        return await account.again(visit, signed, "organizations", error)
    return account.done(visit, "joined")


async def change_password(visit: Visit, signed: SignedIn) -> Response:
    old, new = visit.form.secret("old"), visit.form.secret("new")
    try:
        await SettingPasswords(visit.parts, visit.visitor).change(signed, old, new)
    except PlatformError as error:
        return await account.again(visit, signed, "password", error)
    return account.done(visit, "password")


def _check_name(name: str, noun: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME:
        raise Invalid(f"Give the {noun} a name of 1 to {LONGEST_NAME} letters.")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Invalid("No key was named. Use the button beside the key.")
    return int(text)
