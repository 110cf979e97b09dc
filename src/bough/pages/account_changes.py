"""Handlers of the forms on the account page. All redirect to the page, except the one that shows a new key."""

from starlette.responses import Response

from bough.control.people import invitations, organizations, passwords
from bough.control.people.accounts import SignedInUser
from bough.control.people.keys import create_personal_key, revoke_personal_key
from bough.errors import Invalid, PlatformError
from bough.ids import InvitationId
from bough.pages import account
from bough.pages.page_request import PageRequest

MAX_NAME_LENGTH = 64


async def create_key(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    name = request.form.text("name")
    try:
        _check_name(name, "key")
        _key, token = await create_personal_key(request.context(signed_in_user, "create_api_key"), name)
    except PlatformError as error:
        return await account.show_error(request, signed_in_user, "keys", error, name)
    return request.render("key.html", name=name, token=token)


async def revoke_key(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    try:
        await revoke_personal_key(
            request.context(signed_in_user, "revoke_api_key"), _parse_key_id(request.form.text("key"))
        )
    except PlatformError as error:
        return await account.show_error(request, signed_in_user, "keys", error)
    return account.redirect_after(request, "key-revoked")


async def create_organization(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    name = request.form.text("name")
    try:
        _check_name(name, "organization")
        await organizations.create_organization(request.context(signed_in_user, "create_organization"), name)
    except PlatformError as error:
        return await account.show_error(request, signed_in_user, "organizations", error, name)
    return account.redirect_after(request, "organization")


async def accept_invitation(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    try:
        invitation = InvitationId.parse(request.form.text("invitation"))
        await invitations.accept_invitation(request.context(signed_in_user, "accept_invitation"), invitation)
    except PlatformError as error:
        return await account.show_error(request, signed_in_user, "organizations", error)
    return account.redirect_after(request, "joined")


async def change_password(request: PageRequest, signed_in_user: SignedInUser) -> Response:
    old, new = request.form.secret("old"), request.form.secret("new")
    try:
        await passwords.change_password(request.services, request.client, signed_in_user, old, new)
    except PlatformError as error:
        return await account.show_error(request, signed_in_user, "password", error)
    return account.redirect_after(request, "password")


def _check_name(name: str, noun: str) -> None:
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise Invalid(f"The name of the {noun} must have 1 to {MAX_NAME_LENGTH} characters.")


def _parse_key_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Invalid("The form does not name a key. Use the button next to the key.")
    return int(text)
