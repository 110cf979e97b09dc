"""Random sequences of sharing, transfers, role changes and revocations: all lists and lookups match a model."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rights_walk import ORGANIZATION_STEPS, ORGANIZATIONS, PEOPLE, PROJECT_STEPS, PROJECTS, ROLES, RightsWalk
from support.api_app import ApiApp

pytestmark = pytest.mark.slow
EVERYDAY = 40  # number of hypothesis examples in the everyday tier
WALKS = 5 if settings().max_examples == EVERYDAY else settings().max_examples // 10
people = st.sampled_from(PEOPLE)
actors = st.sampled_from(("", "", "", *PEOPLE))  # mostly a user who is allowed to
roles = st.sampled_from(ROLES)
steps = st.one_of(
    st.tuples(st.sampled_from(("invite", *ORGANIZATION_STEPS)), actors, st.sampled_from(ORGANIZATIONS), people, roles),
    st.tuples(st.sampled_from(PROJECT_STEPS), actors, st.sampled_from(PROJECTS), people, roles),
    st.tuples(st.just("transfer"), actors, st.sampled_from(PROJECTS), st.sampled_from(ORGANIZATIONS), roles),
)
# Every step once, and combinations that rarely occur at random.
FORESEEN = (
    ("invite", "ann", "x", "ben", "collaborator"),
    ("give", "ann", "one", "ben", "admin"),
    ("share", "ann", "one", "ben", ""),  # a user who has more access already
    ("share", "ben", "one", "cid", ""),
    ("give", "ben", "one", "ben", "viewer"),
    ("make_key", "ann", "two", "", "member"),
    ("make_key", "ann", "two", "", "admin"),
    ("change_role", "ann", "x", "ben", "member"),
    ("offer", "ann", "two", "", ""),
    ("accept", "ben", "y", "", ""),
    ("share", "ben", "two", "cid", ""),
    ("transfer", "ben", "two", "x", ""),  # removes permissions and project roles
    ("give", "ann", "one", "ben", "admin"),
    ("transfer", "ann", "one", "home of ann", ""),
    ("transfer", "ann", "one", "x", ""),
    ("share", "ann", "one", "cid", ""),
    ("remove", "ann", "x", "ann", ""),  # the last admin
    ("change_role", "ann", "x", "ben", "admin"),
    ("give", "ben", "two", "ann", "viewer"),  # has no effect on an admin
    ("change_role", "ben", "x", "ann", "member"),  # until the user is no longer an admin
    ("remove", "ann", "x", "ann", ""),
    ("invite", "ben", "x", "ann", "member"),  # a member who returns has no project roles
    ("unshare", "ben", "one", "cid", ""),
    ("revoke_key", "ben", "", "", ""),
)


@given(sampled=st.lists(steps, min_size=6, max_size=16))
@settings(max_examples=WALKS, suppress_health_check=list(HealthCheck))
async def test_everybody_sees_what_the_model_says(
    api_app: ApiApp, sampled: list[tuple[str, str, str, str, str]]
) -> None:
    walk = await RightsWalk.create(api_app)
    try:
        for step in sampled:
            await walk.run_step(*step)
        await walk.check()
    finally:
        await walk.close()


async def test_a_walk_that_leaves_nothing_to_chance(api_app: ApiApp) -> None:
    walk = await RightsWalk.create(api_app)
    await walk.check()
    for step in FORESEEN:
        await walk.run_step(*step)
        await walk.check()
    assert walk.model.owners == {"one": "x", "two": "x", "three": "home of ann"}
    assert not walk.model.shared
    assert not any(key.is_valid for key in walk.model.keys.values())
    await walk.close()
