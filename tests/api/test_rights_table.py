"""Every route with every kind of caller. The expected rights are independent of the code.

A route that is missing in the table fails the test, and so does a removed route. Permitted requests are carried out.
A caller who must not know that an object exists gets the same response as for an invented id.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from api.rights_cases import CASES, RIGHTS, Case, list_covered_operations
from api.rights_setup import AUTHENTICATED, NON_MEMBERS, UNAUTHENTICATED, RightsSetup, open_rights_setup
from bough.domain.organization import MemberRole
from support.api_app import ApiApp
from support.routes import list_routes

PLAIN = [case for case in CASES if not case.needs_new_project]
CONSUMING = [case for case in CASES if case.needs_new_project]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rights_setup(api_app: ApiApp) -> AsyncIterator[RightsSetup]:
    async with open_rights_setup(api_app) as created:
        yield created


def test_no_route_is_missing_from_the_table() -> None:
    assert list_covered_operations() == list_routes()


def test_the_table_has_a_column_for_every_kind_of_caller() -> None:
    assert [len(row.split()) for row in RIGHTS.values()] == [len(AUTHENTICATED)] * len(RIGHTS)


@pytest.mark.parametrize("case", PLAIN, ids=str)
async def test_who_gets_what(rights_setup: RightsSetup, case: Case) -> None:
    for who in (*UNAUTHENTICATED, *AUTHENTICATED):
        await _try(rights_setup, case, who)


@pytest.mark.parametrize("case", CONSUMING, ids=str)
async def test_who_gets_what_that_is_gone_afterwards(api_app: ApiApp, case: Case) -> None:
    """A permitted request removes the object, so each caller gets a new one."""
    waiting = [*UNAUTHENTICATED, *AUTHENTICATED]
    while waiting:
        async with open_rights_setup(api_app) as fresh:
            while waiting:
                who = waiting.pop(0)
                await _try(fresh, case, who)
                if case.expected_status(who) == case.status:
                    break


async def _try(here: RightsSetup, case: Case, who: str) -> None:
    path, body = await case.build_request(here, who)
    response = await here.clients[who].request(case.operation.method, path, json=body)
    await here.finish_operations()
    assert response.status_code == case.expected_status(who), f"{who}: {case}: {response.text}"
    if response.status_code == 404 and who in (*NON_MEMBERS, MemberRole.COLLABORATOR) and case.hides_existence:
        made_up = case.replace_ids(here, path)
        assert made_up != path
        nothing = await here.clients[who].request(case.operation.method, made_up, json=body)
        assert _said(response) == _said(nothing), f"{who} can tell that it is there"


def _said(response: httpx2.Response) -> Any:
    headers = {name: value for name, value in response.headers.items() if name not in ("x-request-id", "date")}
    body = {name: value for name, value in response.json().items() if name != "request_id"}
    return response.status_code, headers, body
