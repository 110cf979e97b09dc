"""Invitations: the mail contains a one-time link for the owner of the address, and reveals no accounts."""

import asyncio
import json
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest

from bough import clock
from bough.control.people.invitations import (
    Invitee,
    create_invitations,
    find_by_token,
    join,
    revoke_invitation,
)
from bough.domain.api_key import KeyKind
from bough.domain.invitation import Invitation
from bough.domain.organization import MemberRole, Organization
from bough.errors import Denied, NotFound
from bough.ids import InvitationId
from bough.store.audit import AuditQuery
from support.accounts import add_key, list_mails
from support.api_app import ApiApp
from support.api_client import Caller, Json, make_stale_context

NOBODY = "00000000-0000-4000-8000-000000000000"
VIEWER = MemberRole.VIEWER


def _place(organization: Organization) -> str:
    return f"/organizations/{organization.id}/invitations"


def _accepted(invitation: Json) -> str:
    return f"/bough/invitations/{invitation['id']}/accept"


def _somebody() -> str:
    """Returns an unused e-mail address."""
    return f"{uuid.uuid4().hex}@example.com"


def _asked(*emails: str, role: str = "editor") -> Json:
    return {"invitations": [{"email": email, "role": role} for email in emails]}


async def _invited(caller: Caller, organization: Organization, *emails: str, role: str = "editor") -> list[Json]:
    response = await caller.client.post(_place(organization), json=_asked(*emails, role=role))
    assert response.status_code == 200, response.text
    created: list[Json] = response.json()["invitations"]
    return created


async def _listed(caller: Caller, organization: Organization) -> list[Json]:
    listed: list[Json] = (await caller.client.get(_place(organization))).json()["invitations"]
    return listed


async def _token(app: ApiApp, email: str) -> str:
    """Returns the link in the newest mail to the address."""
    (found,) = re.findall(r"/invitation\?token=(\S+)", (await list_mails(app.services, email))[-1][1])
    return str(found)


async def _by_token(app: ApiApp, token: str) -> Invitation | None:
    async with app.services.store.read() as rows:
        return await find_by_token(rows, app.services.keys, token)


async def _row(app: ApiApp, invitation: Json) -> Invitation:
    async with app.services.store.read() as rows:
        found = await rows.invitations.get(InvitationId(invitation["id"]), clock.now())
    assert found is not None
    return found


async def test_one_is_listed_mailed_and_found_by_its_link(api_app: ApiApp, caller: Caller) -> None:
    team, email = await caller.create_organization("Orchard"), _somebody()
    (created,) = await _invited(caller, team, email)
    assert (created["email"], created["role"], created["org_id"]) == (email, "editor", team.id)
    assert created["invited_by"] == caller.user.id
    assert await _listed(caller, team) == [created]
    ((subject, text),) = await list_mails(api_app.services, email)
    assert subject == "Invitation to the organization Orchard"
    assert f"{caller.user.email} invites you to the organization Orchard, as editor." in text
    found = await _by_token(api_app, await _token(api_app, email))
    assert (found is not None and found.id) == created["id"]


async def test_the_token_is_in_the_mail_and_nowhere_else(api_app: ApiApp, caller: Caller) -> None:
    team, email = await caller.create_organization(), _somebody()
    response = await caller.client.post(_place(team), json=_asked(email))
    token = await _token(api_app, email)
    assert len(token) >= 43
    row = await _row(api_app, response.json()["invitations"][0])
    async with api_app.services.store.read() as rows:
        (line,) = await rows.audit.page(AuditQuery(org_id=team.id), 10, None)
        waiting = [
            each for each in await rows.mail_messages.list_due(clock.now(), 1_000_000) if each.recipient == email
        ]
    assert (line.action, line.details) == ("create_organization_invitations", {"invited": {email: "editor"}})
    for text in (response.text, repr(row), repr(line), repr(waiting)):
        assert token not in text


async def test_the_answer_is_the_same_whether_or_not_the_address_has_an_account(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    team, anonymous = await caller.create_organization(), _somebody()
    answers = [await _invited(caller, team, email) for email in (stranger.user.email, anonymous)]
    known, unknown = ({**each, "id": "", "email": "", "invited_at": ""} for (each,) in answers)
    assert known == unknown
    mails = [(await list_mails(api_app.services, email))[0] for email in (stranger.user.email, anonymous)]
    known_text, unknown_text = (re.sub(r"token=\S+|until .* UTC", "", text) for _, text in mails)
    assert known_text == unknown_text


async def test_addresses_are_one_in_any_case(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, f" {stranger.user.email.upper()} ")
    assert created["email"] == stranger.user.email
    assert (await stranger.client.post(_accepted(created))).status_code == 200


async def test_inviting_again_takes_the_place_of_the_earlier(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, email = await caller.create_organization(), _somebody()
    (first,) = await _invited(caller, team, email)
    old, expired = await _token(api_app, email), (await _row(api_app, first)).expires_at
    later = clock.now() + timedelta(hours=1)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(clock, "now", lambda: later)
        (second,) = await _invited(caller, team, email, role="viewer")
        new = await _token(api_app, email)
    assert await _listed(caller, team) == [second]
    assert (second["role"], second["id"] != first["id"], new != old) == ("viewer", True, True)
    assert await _by_token(api_app, old) is None
    found = await _by_token(api_app, new)
    assert found is not None
    assert found.expires_at == later + timedelta(days=api_app.settings.invitation_days) > expired


async def test_all_of_a_call_or_none(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    team, others = await caller.create_organization(), [_somebody() for _ in range(99)]
    await stranger.join_organization(team, VIEWER)
    response = await caller.client.post(_place(team), json=_asked(*others, stranger.user.email))
    assert (response.status_code, stranger.user.email in response.json()["message"]) == (409, True)
    assert await _listed(caller, team) == []
    assert await list_mails(api_app.services, others[0]) == []
    created = await _invited(caller, team, *others, _somebody())
    assert [each["email"] for each in created[:99]] == others
    assert len(await _listed(caller, team)) == 100


@pytest.mark.parametrize(
    "emails",
    [
        [],
        [f"{number}@example.com" for number in range(101)],
        ["same@example.com", "other@example.com", "Same@Example.com"],
        ["good@example.com", "bad"],
        [""],
        ["a@b\r\nBcc: all@example.com"],
        ["a@example.com, b@example.com"],
        ["x" * 250 + "@example.com"],
        ["\ud800@example.com"],
        [7],
        [None],
    ],
)
async def test_addresses_that_will_not_do_are_refused(caller: Caller, emails: list[Any]) -> None:
    team = await caller.create_organization()
    body = json.dumps(_asked(*emails))
    response = await caller.client.post(_place(team), content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert await _listed(caller, team) == []


@pytest.mark.parametrize(
    "body", [None, {}, {"invitations": {}}, {"invitations": [{"email": "a@example.com"}]}, _asked("a@b.c", role="boss")]
)
async def test_a_bad_body_is_refused(caller: Caller, body: Any) -> None:
    team = await caller.create_organization()
    assert (await caller.client.post(_place(team), json=body)).status_code == 400


async def test_a_personal_organization_takes_no_members(caller: Caller) -> None:
    response = await caller.client.post(_place(caller.organization), json=_asked(_somebody()))
    assert (response.status_code, "Create an organization for a team" in response.json()["message"]) == (422, True)


async def test_a_name_cannot_write_headers_into_the_mail(api_app: ApiApp, caller: Caller) -> None:
    team, email = await caller.create_organization("Team\r\nBcc: all@example.com\u2028\x1b[1m"), _somebody()
    await _invited(caller, team, email)
    ((subject, text),) = await list_mails(api_app.services, email)
    assert subject == "Invitation to the organization Team Bcc: all@example.com [1m"
    assert "\nBcc" not in text


@pytest.mark.parametrize("role", MemberRole)
async def test_who_sees_them_and_who_makes_and_takes_back(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, _somebody())
    await stranger.join_organization(team, role)
    sees = 403 if role is MemberRole.COLLABORATOR else 200
    manages = 200 if role is MemberRole.ADMIN else 403
    assert (await stranger.client.get(_place(team))).status_code == sees
    assert (await stranger.client.post(_place(team), json=_asked(_somebody()))).status_code == manages
    assert (await stranger.client.delete(f"/bough{_place(team)}/{created['id']}")).status_code == manages


async def test_keys_of_the_organization_see_them_and_make_none(api_app: ApiApp, caller: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, caller.user.email.replace("@", "+2@"))
    token = await add_key(api_app.services, caller.account, KeyKind.ORGANIZATION, org_id=team.id)
    async with api_app.client(token) as client:
        assert (await client.get(_place(team))).json()["invitations"] == [created]
        assert (await client.post(_place(team), json=_asked(_somebody()))).status_code == 403
        assert (await client.delete(f"/bough{_place(team)}/{created['id']}")).status_code == 403
        assert (await client.get("/bough/invitations")).status_code == 403
        assert (await client.post(_accepted(created))).status_code == 403


async def test_strangers_are_told_the_same_as_of_nothing(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, _somebody())
    for method, path, body in (
        ("GET", "/organizations/{}/invitations", None),
        ("POST", "/organizations/{}/invitations", _asked(_somebody())),
        ("DELETE", f"/bough/organizations/{{}}/invitations/{created['id']}", None),
    ):
        theirs, absent = [
            await stranger.client.request(method, path.format(each), json=body) for each in (team.id, "org-none")
        ]
        assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])
    theirs, absent = [await stranger.client.post(_accepted({"id": each})) for each in (created["id"], NOBODY)]
    assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])
    assert await _listed(caller, team) == [created]


async def test_whoever_is_invited_sees_it_and_accepts_once(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization("Orchard")
    (created,) = await _invited(caller, team, stranger.user.email, role="viewer")
    (seen,) = (await stranger.client.get("/bough/invitations")).json()["invitations"]
    expires = (await _row(api_app, created)).expires_at
    assert seen == {**created, "org_name": "Orchard", "expires_at": expires.isoformat().replace("+00:00", "Z")}
    assert (await caller.client.get("/bough/invitations")).json()["invitations"] == []
    member = (await stranger.client.post(_accepted(created))).json()
    assert (member["user_id"], member["org_id"], member["role"]) == (stranger.user.id, team.id, "viewer")
    assert (await stranger.client.get(f"/organizations/{team.id}/members/{member['id']}")).json() == member
    assert (await stranger.client.post(_accepted(created))).status_code == 404
    assert (await stranger.client.get("/bough/invitations")).json()["invitations"] == []
    assert await _listed(caller, team) == []
    assert await _by_token(api_app, await _token(api_app, stranger.user.email)) is None
    async with api_app.services.store.read() as rows:
        line, _ = await rows.audit.page(AuditQuery(org_id=team.id), 10, None)
    assert (line.action, line.user_id) == ("accept_invitation", stranger.user.id)
    assert (line.resource, line.details) == (stranger.user.email, {"role": "viewer"})


async def test_of_two_who_accept_at_once_one_gets_in(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, stranger.user.email)
    async with api_app.client(await stranger.create_key()) as again:
        answers = await asyncio.gather(stranger.client.post(_accepted(created)), again.post(_accepted(created)))
    assert sorted(response.status_code for response in answers) == [200, 404]
    assert len((await caller.client.get(f"/organizations/{team.id}/members")).json()["members"]) == 2


async def test_of_accepting_and_taking_back_at_once_one_counts(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, stranger.user.email)
    accepted, revoked = await asyncio.gather(
        stranger.client.post(_accepted(created)), caller.client.delete(f"/bough{_place(team)}/{created['id']}")
    )
    assert {accepted.status_code, revoked.status_code} == {200, 404}
    members = (await caller.client.get(f"/organizations/{team.id}/members")).json()["members"]
    assert len(members) == (2 if accepted.status_code == 200 else 1)


async def test_who_is_a_member_already_uses_it_up(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, stranger.user.email, role="admin")
    await stranger.join_organization(team, VIEWER)
    response = await stranger.client.post(_accepted(created))
    assert (response.status_code, "already a member of this organization" in response.json()["message"]) == (409, True)
    assert (await stranger.client.post(_accepted(created))).status_code == 404
    (admin, viewer) = (await caller.client.get(f"/organizations/{team.id}/members?sort_by=role&sort_order=asc")).json()[
        "members"
    ]
    assert (admin["member"]["user_id"], viewer["member"]["user_id"]) == (caller.user.id, stranger.user.id)


async def test_an_expired_one_is_gone_for_everybody(
    api_app: ApiApp, caller: Caller, stranger: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, stranger.user.email)
    token, expires = await _token(api_app, stranger.user.email), (await _row(api_app, created)).expires_at
    assert expires == (await _row(api_app, created)).invited_at + timedelta(days=api_app.settings.invitation_days)
    for moment, there in ((expires - timedelta(microseconds=1), True), (expires, False)):
        with monkeypatch.context() as then:
            then.setattr(clock, "now", lambda moment=moment: moment)
            assert bool(await _listed(caller, team)) is there
            assert bool((await stranger.client.get("/bough/invitations")).json()["invitations"]) is there
            assert (await _by_token(api_app, token) is not None) is there
            if not there:
                assert (await stranger.client.post(_accepted(created))).status_code == 404
                assert (await caller.client.delete(f"/bough{_place(team)}/{created['id']}")).status_code == 404


async def test_one_that_was_taken_back_opens_nothing(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, stranger.user.email)
    other = await caller.create_organization("other")
    assert (await caller.client.delete(f"/bough{_place(other)}/{created['id']}")).status_code == 404
    assert (await caller.client.delete(f"/bough{_place(team)}/{created['id']}")).json() == created
    assert (await caller.client.delete(f"/bough{_place(team)}/{created['id']}")).status_code == 404
    assert (await stranger.client.post(_accepted(created))).status_code == 404
    assert await _by_token(api_app, await _token(api_app, stranger.user.email)) is None


@pytest.mark.parametrize("invitation_id", ["7", "x" * 36])
async def test_an_id_that_is_none(caller: Caller, invitation_id: str) -> None:
    assert (await caller.client.post(_accepted({"id": invitation_id}))).status_code == 400
    path = f"/bough{_place(caller.organization)}/{invitation_id}"
    assert (await caller.client.delete(path)).status_code == 400


async def test_whoever_made_it_need_not_be_there_any_more(caller: Caller, stranger: Caller) -> None:
    team, email = await caller.create_organization(), _somebody()
    member = await stranger.join_organization(team, MemberRole.ADMIN)
    await _invited(stranger, team, email)
    assert (await stranger.client.delete(f"/organizations/{team.id}/members/{member.id}")).status_code == 200
    assert [each["email"] for each in await _listed(caller, team)] == [email]


async def test_a_role_that_was_taken_away_meanwhile_does_not_count(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, _somebody())
    member = await stranger.join_organization(team, MemberRole.ADMIN)
    context = await make_stale_context(stranger)
    await caller.client.patch(f"/organizations/{team.id}/members/{member.id}", json={"role": "viewer"})
    with pytest.raises(Denied):
        await create_invitations(context, team, [Invitee(_somebody(), VIEWER)])
    with pytest.raises(Denied):
        await revoke_invitation(context, team, InvitationId(created["id"]))
    assert await _listed(caller, team) == [created]


async def test_an_account_that_is_made_from_one_joins_once(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    """Accepts as the pages do, in their own transaction."""
    team = await caller.create_organization()
    (created,) = await _invited(caller, team, stranger.user.email)
    row = await _row(api_app, created)
    async with api_app.services.store.transaction() as rows:
        member = await join(rows, row, stranger.user.id, clock.now())
    assert (member.role, await _listed(caller, team)) == (MemberRole.EDITOR, [])
    with pytest.raises(NotFound):
        async with api_app.services.store.transaction() as rows:
            await join(rows, row, caller.user.id, clock.now())
