"""Every route, tried by every kind of caller: who gets what is written here once more, apart from the code.

A route that is not in the table fails the test, and so does one that is there no more. Those who may are let in for
good: what they ask for happens. Those who may not know of a thing get the very answer of somebody who made up its id.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from api.front import Front
from api.rights_cases import CASES, ROWS, Case, built_with_cases
from api.routes import built
from api.standing import KNOWN, OUTSIDE, WITHOUT, Standing, standing
from bough.domain.organization import MemberRole

PLAIN = [case for case in CASES if not case.consumes]
CONSUMING = [case for case in CASES if case.consumes]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here(front: Front) -> AsyncIterator[Standing]:
    async with standing(front) as made:
        yield made


def test_no_route_is_missing_from_the_table() -> None:
    assert built_with_cases() == built()


def test_the_table_has_a_column_for_every_kind_of_caller() -> None:
    assert [len(row.split()) for row in ROWS.values()] == [len(KNOWN)] * len(ROWS)


@pytest.mark.parametrize("case", PLAIN, ids=str)
async def test_who_gets_what(here: Standing, case: Case) -> None:
    for who in (*WITHOUT, *KNOWN):
        await _try(here, case, who)


@pytest.mark.parametrize("case", CONSUMING, ids=str)
async def test_who_gets_what_that_is_gone_afterwards(front: Front, case: Case) -> None:
    """Whoever is let in takes the thing away, so the next one finds everything new."""
    waiting = [*WITHOUT, *KNOWN]
    while waiting:
        async with standing(front) as fresh:
            while waiting:
                who = waiting.pop(0)
                await _try(fresh, case, who)
                if case.expected(who) == case.status:
                    break


async def _try(here: Standing, case: Case, who: str) -> None:
    path, body = await case.ask(here, who)
    answer = await here.clients[who].request(case.operation.method, path, json=body)
    await here.work_ends()
    assert answer.status_code == case.expected(who), f"{who}: {case}: {answer.text}"
    if answer.status_code == 404 and who in (*OUTSIDE, MemberRole.COLLABORATOR) and case.hides:
        made_up = case.made_up(here, path)
        assert made_up != path
        nothing = await here.clients[who].request(case.operation.method, made_up, json=body)
        assert _said(answer) == _said(nothing), f"{who} can tell that it is there"


def _said(answer: httpx2.Response) -> Any:
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
    body = {name: value for name, value in answer.json().items() if name != "request_id"}
    return answer.status_code, headers, body
