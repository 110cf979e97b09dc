"""Every page, at its path."""

from starlette.routing import Route

from bough.pages import account, account_changes, assets, claim, forgot, invitation, sign_in, sign_up, start, welcome
from bough.pages.page import at, of_a_person


def routes() -> list[Route]:
    return [
        at("/", get=start.show),
        at("/signup", get=sign_up.show, post=sign_up.ask),
        at("/welcome/finish", get=sign_up.show_finish, post=sign_up.finish),
        at("/signin", get=sign_in.show, post=sign_in.sign_in),
        at("/signout", post=sign_in.sign_out),
        at("/signout-everywhere", post=of_a_person(sign_in.sign_out_everywhere)),
        at("/forgot", get=forgot.show, post=forgot.ask),
        at("/reset", get=forgot.show_reset, post=forgot.reset),
        at("/welcome", get=welcome.show, post=welcome.begin),
        at("/invitation", get=invitation.show, post=invitation.accept),
        at("/claim/{id}", get=claim.show),
        at("/claim/{id}/start", post=claim.start),
        at("/claim/{id}/confirm", post=claim.confirm),
        at("/claim/{id}/cancel", post=claim.cancel),
        at("/database/{id}", get=claim.lead_here),
        at("/account", get=of_a_person(account.show)),
        at("/account/keys", post=of_a_person(account_changes.create_key)),
        at("/account/keys/revoke", post=of_a_person(account_changes.revoke_key)),
        at("/account/organizations", post=of_a_person(account_changes.create_organization)),
        at("/account/invitations", post=of_a_person(account_changes.accept_invitation)),
        at("/account/password", post=of_a_person(account_changes.change_password)),
        *assets.routes(),
    ]
