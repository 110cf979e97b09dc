"""State changes of a claim: from every state, by the claiming user and by another one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bough.domain.instant_database import (
    CLAIM_DURATION,
    InstantDatabase,
    InstantStatus,
    begin_claim,
    cancel_claim,
    complete_claim,
)
from bough.errors import Conflict, NotFound, PlatformError
from bough.ids import ProjectId, UserId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=1)
ADA, EVE = UserId("00000000-0000-4000-8000-000000000001"), UserId("00000000-0000-4000-8000-000000000002")
UNCLAIMED, CLAIMING, CLAIMED = InstantStatus
FRESH = InstantDatabase(
    digest="d",
    sealed_id="s",
    project_id=ProjectId("p"),
    ref="tests",
    created_at=NOON,
    updated_at=NOON,
    expires_at=NOON + timedelta(hours=72),
)
STATES = {
    "unclaimed": FRESH,
    "claiming": begin_claim(FRESH, ADA, NOON),
    "lapsed": begin_claim(FRESH, ADA, LATER - CLAIM_DURATION),
    "claimed": complete_claim(begin_claim(FRESH, ADA, NOON), ADA, NOON),
    "expired": replace(FRESH, expires_at=LATER),
    "claiming past its end": replace(begin_claim(FRESH, ADA, NOON), expires_at=LATER),
    "lapsed past its end": replace(begin_claim(FRESH, ADA, LATER - CLAIM_DURATION), expires_at=LATER),
}
MOVES = {"begin": begin_claim, "cancel": cancel_claim, "complete": complete_claim}
TABLE: dict[tuple[str, str], dict[UserId, InstantStatus | type[PlatformError]]] = {
    ("unclaimed", "begin"): {ADA: CLAIMING, EVE: CLAIMING},
    ("unclaimed", "cancel"): {ADA: UNCLAIMED, EVE: UNCLAIMED},
    ("unclaimed", "complete"): {ADA: Conflict, EVE: Conflict},
    ("claiming", "begin"): {ADA: CLAIMING, EVE: Conflict},
    ("claiming", "cancel"): {ADA: UNCLAIMED, EVE: CLAIMING},
    ("claiming", "complete"): {ADA: CLAIMED, EVE: Conflict},
    ("lapsed", "begin"): {ADA: CLAIMING, EVE: CLAIMING},
    ("lapsed", "cancel"): {ADA: UNCLAIMED, EVE: UNCLAIMED},
    ("lapsed", "complete"): {ADA: Conflict, EVE: Conflict},
    ("claimed", "begin"): {ADA: Conflict, EVE: Conflict},
    ("claimed", "cancel"): {ADA: CLAIMED, EVE: CLAIMED},
    ("claimed", "complete"): {ADA: Conflict, EVE: Conflict},
    ("expired", "begin"): {ADA: NotFound, EVE: NotFound},
    ("expired", "cancel"): {ADA: UNCLAIMED, EVE: UNCLAIMED},
    ("expired", "complete"): {ADA: NotFound, EVE: NotFound},
    ("claiming past its end", "begin"): {ADA: CLAIMING, EVE: Conflict},
    ("claiming past its end", "cancel"): {ADA: UNCLAIMED, EVE: CLAIMING},
    ("claiming past its end", "complete"): {ADA: CLAIMED, EVE: Conflict},
    ("lapsed past its end", "begin"): {ADA: NotFound, EVE: NotFound},
    ("lapsed past its end", "cancel"): {ADA: UNCLAIMED, EVE: UNCLAIMED},
    ("lapsed past its end", "complete"): {ADA: NotFound, EVE: NotFound},
}


def test_the_table_has_every_move_from_every_state() -> None:
    assert set(TABLE) == {(state, move) for state in STATES for move in MOVES}


@pytest.mark.parametrize(("state", "move"), TABLE, ids=" ".join)
def test_a_move_ends_where_the_table_says(state: str, move: str) -> None:
    for who, end in TABLE[state, move].items():
        if isinstance(end, InstantStatus):
            assert MOVES[move](STATES[state], who, LATER).status(LATER) is end
        else:
            with pytest.raises(end):
                MOVES[move](STATES[state], who, LATER)


def test_a_claim_lasts_a_quarter_of_an_hour_and_begins_anew_when_it_is_begun_again() -> None:
    begun = begin_claim(FRESH, ADA, NOON)
    assert begun.claiming_until == NOON + timedelta(minutes=15)
    assert begin_claim(begun, ADA, LATER).claiming_until == LATER + timedelta(minutes=15)


def test_who_claimed_it_and_when_is_kept_and_the_rest_is_as_it_was() -> None:
    done = complete_claim(STATES["claiming"], ADA, LATER)
    assert done == replace(FRESH, claimed_by=ADA, claimed_at=LATER, updated_at=LATER)
    assert done.status(NOON + timedelta(days=1000)) is CLAIMED
    assert not done.is_expired(NOON + timedelta(days=1000))


def test_a_cancelled_claim_leaves_nothing_behind() -> None:
    assert cancel_claim(STATES["claiming"], ADA, LATER) == replace(FRESH, updated_at=LATER)
    assert cancel_claim(STATES["claiming"], EVE, LATER) is STATES["claiming"]


def test_to_begin_again_and_again_does_not_keep_a_database_for_ever() -> None:
    last = FRESH.expires_at + CLAIM_DURATION
    now, kept = FRESH.expires_at - timedelta(seconds=1), FRESH
    while now < last:
        kept = begin_claim(kept, ADA, now)
        now += CLAIM_DURATION / 3
    assert kept.claiming_until == last
    assert kept.is_expired(last)
