"""The caller: the key, the user and the user's organizations."""

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Response

from bough import clock
from bough.api.dependencies import PrincipalDep, ServicesDep
from bough.api.schemas import View, to_response
from bough.api.v2.organizations import OrganizationView
from bough.config import Plan
from bough.domain.calendar_month import start_of_month
from bough.domain.user import User
from bough.errors import NotFound

router = APIRouter(tags=["Users"])


class AuthDetails(View):
    account_id: str
    auth_method: Literal["api_key_user", "api_key_org"]
    auth_data: str


class AuthAccount(View):
    email: str
    image: str
    login: str
    name: str
    provider: Literal["keycloak"]


class PaymentSource(View):
    type: str


class BillingAccount(View):
    """Always without charges. Clients of the API expect the fields."""

    state: Literal["active"] = "active"
    payment_source: PaymentSource = PaymentSource(type="none")
    subscription_type: Literal["UNKNOWN", "free_v2"]
    payment_method: Literal["none"] = "none"
    quota_reset_at_last: datetime
    name: str
    email: str
    address_city: str = ""
    address_country: str = ""
    address_line1: str = ""
    address_line2: str = ""
    address_postal_code: str = ""
    address_state: str = ""


class CurrentUser(View):
    active_seconds_limit: int
    billing_account: BillingAccount
    auth_accounts: list[AuthAccount]
    email: str
    id: str
    image: str
    login: str
    name: str
    last_name: str
    projects_limit: int
    branches_limit: int
    max_autoscaling_limit: float
    plan: str

    @classmethod
    def of(cls, user: User, plan: Plan, period_start: datetime) -> "CurrentUser":
        account = AuthAccount(email=user.email, image="", login=user.email, name=user.name, provider="keycloak")
        billing = BillingAccount(
            subscription_type=subscription_type(user.plan),
            quota_reset_at_last=period_start,
            name=user.name,
            email=user.email,
        )
        return cls(
            active_seconds_limit=0,
            billing_account=billing,
            auth_accounts=[account],
            email=user.email,
            id=user.id,
            image="",
            login=user.email,
            name=user.name,
            last_name=user.last_name,
            projects_limit=plan.projects,
            branches_limit=plan.branches,
            max_autoscaling_limit=plan.max_cu,
            plan=user.plan,
        )


class OrganizationsResponse(View):
    organizations: list[OrganizationView]


def subscription_type(plan: str) -> Literal["UNKNOWN", "free_v2"]:
    """Return only values that older clients know, because they fail on others."""
    return "free_v2" if plan == "free" else "UNKNOWN"


@router.get("/auth", response_model=AuthDetails)
async def get_auth_details(caller: PrincipalDep) -> Response:
    """Get the kind and the owner of the API key."""
    if caller.is_person:
        return to_response(
            AuthDetails(account_id=caller.user_id, auth_method="api_key_user", auth_data=str(caller.key_id))
        )
    organization = next(iter(caller.memberships))
    return to_response(AuthDetails(account_id=organization, auth_method="api_key_org", auth_data=str(caller.key_id)))


@router.get("/users/me", response_model=CurrentUser)
async def get_current_user_info(caller: PrincipalDep, services: ServicesDep) -> Response:
    """Get the user of the API key, with the limits of the plan."""
    caller.check_is_person()
    async with services.store.read() as rows:
        user = await rows.users.get(caller.user_id)
    if user is None:
        raise NotFound.resource("user")
    return to_response(CurrentUser.of(user, services.settings.plan(user.plan), start_of_month(clock.now())))


@router.get("/users/me/organizations", response_model=OrganizationsResponse, tags=["Organizations"])
async def get_current_user_organizations(caller: PrincipalDep, services: ServicesDep) -> Response:
    """List the caller's organizations. The personal one is the first."""
    caller.check_is_person()
    async with services.store.read() as rows:
        organizations = await rows.organizations.list_by_user(caller.user_id)
    return to_response(OrganizationsResponse(organizations=[OrganizationView.of(each) for each in organizations]))
