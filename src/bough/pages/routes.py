"""The routes of all pages."""

from starlette.routing import Route

from bough.pages import (
    account,
    account_changes,
    assets,
    claim,
    home,
    invitation,
    password_reset,
    sign_in,
    sign_up,
    welcome,
)
from bough.pages.page_app import page_route, require_sign_in


def routes() -> list[Route]:
    return [
        page_route("/", get=home.show),
        page_route("/signup", get=sign_up.show, post=sign_up.send_link),
        page_route("/welcome/finish", get=sign_up.show_finish, post=sign_up.finish),
        page_route("/signin", get=sign_in.show, post=sign_in.sign_in),
        page_route("/signout", post=sign_in.sign_out),
        page_route("/signout-everywhere", post=require_sign_in(sign_in.sign_out_everywhere)),
        page_route("/forgot", get=password_reset.show, post=password_reset.send_link),
        page_route("/reset", get=password_reset.show_reset, post=password_reset.reset),
        page_route("/welcome", get=welcome.show, post=welcome.set_operator_password),
        page_route("/invitation", get=invitation.show, post=invitation.accept),
        page_route("/claim/{id}", get=claim.show),
        page_route("/claim/{id}/start", post=claim.start),
        page_route("/claim/{id}/confirm", post=claim.confirm),
        page_route("/claim/{id}/cancel", post=claim.cancel),
        page_route("/database/{id}", get=claim.redirect_published_path),
        page_route("/account", get=require_sign_in(account.show)),
        page_route("/account/keys", post=require_sign_in(account_changes.create_key)),
        page_route("/account/keys/revoke", post=require_sign_in(account_changes.revoke_key)),
        page_route("/account/organizations", post=require_sign_in(account_changes.create_organization)),
        page_route("/account/invitations", post=require_sign_in(account_changes.accept_invitation)),
        page_route("/account/password", post=require_sign_in(account_changes.change_password)),
        *assets.routes(),
    ]
