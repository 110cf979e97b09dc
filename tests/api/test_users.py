"""The caller: key, user and organizations."""

from datetime import datetime

from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole
from bough.ids import MemberId
from support.api_app import ApiApp
from support.api_client import Caller


async def test_auth_tells_which_kind_of_key_it_is(api_app: ApiApp, caller: Caller) -> None:
    response = (await caller.client.get("/auth")).json()
    (own,) = (await caller.client.get("/api_keys")).json()
    assert response == {
        "account_id": caller.user.id,
        "auth_method": "api_key_user",
        "auth_data": str(own["id"]),
    }
    project_id = await caller.create_ready_project()
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, project_id)) as client:
        assert (await client.get("/auth")).json()["auth_method"] == "api_key_org"


async def test_me_tells_the_account_and_its_limits(caller: Caller, stranger: Caller) -> None:
    me = (await caller.client.get("/users/me")).json()
    assert (me["id"], me["email"], me["login"]) == (caller.user.id, caller.user.email, caller.user.email)
    assert (me["name"], me["last_name"], me["plan"]) == ("Ada", "Lin", "unlimited")
    assert (me["projects_limit"], me["max_autoscaling_limit"]) == (1_000_000, 64)
    free = (await stranger.client.get("/users/me")).json()
    assert (free["plan"], free["projects_limit"], free["branches_limit"]) == ("free", 100, 500)


async def test_me_has_a_billing_account_that_old_clients_can_read(caller: Caller, stranger: Caller) -> None:
    """Older clients fail on an unknown subscription type."""
    for asking, subscription in ((caller, "UNKNOWN"), (stranger, "free_v2")):
        billing = (await asking.client.get("/users/me")).json()["billing_account"]
        assert billing["subscription_type"] == subscription
        assert (billing["state"], billing["payment_method"]) == ("active", "none")
        assert (await asking.create_project())["project"]["owner"]["subscription_type"] == subscription


async def test_the_accounts_period_is_the_month(caller: Caller) -> None:
    began = datetime.fromisoformat(
        (await caller.client.get("/users/me")).json()["billing_account"]["quota_reset_at_last"]
    )
    project = (await caller.create_project())["project"]
    assert (began.day, began.hour, began.utcoffset()) == (1, 0, began.utcoffset())
    assert datetime.fromisoformat(project["consumption_period_start"]) == began
    assert datetime.fromisoformat(project["consumption_period_end"]) > began
    assert project["quota_reset_at"] == project["consumption_period_end"]


async def test_the_personal_organization_is_listed(caller: Caller) -> None:
    (mine,) = (await caller.client.get("/users/me/organizations")).json()["organizations"]
    assert (mine["id"], mine["name"], mine["plan"]) == (caller.organization.id, "Ada", "unlimited")


async def test_a_member_reaches_the_organizations_projects(caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project(name="shared")
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 404
    joined = Member(
        id=MemberId.new(),
        org_id=caller.organization.id,
        user_id=stranger.user.id,
        role=MemberRole.MEMBER,
        joined_at=caller.user.created_at,
    )
    async with caller.api_app.platform.store.transaction() as rows:
        await rows.members.add(joined)
    assert (await stranger.get_project(project_id))["org_id"] == caller.organization.id
    assert await stranger.list_project_names() == ["shared"]
    assert await stranger.list_project_names(org_id=stranger.organization.id) == []
    listed = (await stranger.client.get("/users/me/organizations")).json()["organizations"]
    assert {each["id"] for each in listed} == {caller.organization.id, stranger.organization.id}
    assert (await stranger.create_project())["project"]["org_id"] == stranger.organization.id


async def test_the_operator_is_a_user_like_others(api_app: ApiApp) -> None:
    async with api_app.client(api_app.platform.key) as operator:
        me = (await operator.get("/users/me")).json()
        assert me["plan"] == "unlimited"
        assert (await operator.get("/auth")).json()["account_id"] == me["id"]
        assert len((await operator.get("/users/me/organizations")).json()["organizations"]) == 1
