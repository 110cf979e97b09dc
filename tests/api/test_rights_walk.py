"""Random sequences of sharing, transfer, role change and revocation: every listing and lookup is as a model says."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rights_walk import ORGANIZATION_STEPS, ORGANIZATIONS, PEOPLE, PROJECT_STEPS, PROJECTS, ROLES, RightsWalk
from support.api_app import ApiApp

EVERYDAY = 40  # examples that hypothesis tries in the everyday tier
WALKS = 5 if settings().max_examples == EVERYDAY else settings().max_examples // 10
people = st.sampled_from(PEOPLE)
actors = st.sampled_from(("", "", "", *PEOPLE))  # mostly somebody who may
roles = st.sampled_from(ROLES)
steps = st.one_of(
    st.tuples(st.sampled_from(("invite", *ORGANIZATION_STEPS)), actors, st.sampled_from(ORGANIZATIONS), people, roles),
    st.tuples(st.sampled_from(PROJECT_STEPS), actors, st.sampled_from(PROJECTS), people, roles),
    st.tuples(st.just("transfer"), actors, st.sampled_from(PROJECTS), st.sampled_from(ORGANIZATIONS), roles),
)
# Everything once, and what chance seldom brings together.
FORESEEN = (
    ("invite", "ann", "x", "ben", "collaborator"),
    ("give", "ann", "one", "ben", "admin"),
    ("share", "ann", "one", "ben", ""),  # who has more already
    ("share", "ben", "one", "cid", ""),
    ("give", "ben", "one", "ben", "viewer"),
    ("make_key", "ann", "two", "", "member"),
    ("make_key", "ann", "two", "", "admin"),
    ("change_role", "ann", "x", "ben", "member"),
    ("offer", "ann", "two", "", ""),
    ("accept", "ben", "y", "", ""),
    ("share", "ben", "two", "cid", ""),
    ("transfer", "ben", "two", "x", ""),  # what was shared and given there ends
    ("give", "ann", "one", "ben", "admin"),
    ("transfer", "ann", "one", "home of ann", ""),
    ("transfer", "ann", "one", "x", ""),
    ("share", "ann", "one", "cid", ""),
    ("remove", "ann", "x", "ann", ""),  # the last admin
    ("change_role", "ann", "x", "ben", "admin"),
    ("give", "ben", "two", "ann", "viewer"),  # to an admin it changes nothing
    ("change_role", "ben", "x", "ann", "member"),  # until they are one no more
    ("remove", "ann", "x", "ann", ""),
    ("invite", "ben", "x", "ann", "member"),  # and whoever comes back begins anew
    ("unshare", "ben", "one", "cid", ""),
    ("revoke_key", "ben", "", "", ""),
)


@given(taken=st.lists(steps, min_size=6, max_size=16))
@settings(max_examples=WALKS, suppress_health_check=list(HealthCheck))
async def test_everybody_sees_what_the_model_says(api_app: ApiApp, taken: list[tuple[str, str, str, str, str]]) -> None:
    walk = await RightsWalk.create(api_app)
    try:
        for step in taken:
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
