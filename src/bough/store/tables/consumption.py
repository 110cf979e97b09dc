"""Tables of the consumption history. They outlive the projects that they describe, so they have no foreign keys."""

from typing import Any

import sqlalchemy as sa

from bough.domain.consumption import AMOUNT_NAMES, FLOW_NAMES, PEAK_NAMES, Flows
from bough.store.tables.columns import boolean, metadata, text, timestamp
from bough.store.types import Microseconds

_SECONDS = [name for name in FLOW_NAMES if isinstance(getattr(Flows(), name), float)]


def _number(name: str, kind: Any = sa.BigInteger) -> sa.Column[int | float]:
    return sa.Column(name, kind, nullable=False)


# One row per hour, day and month in which something was used or a amount changed, of each project (branch_id is empty)
# and of each branch.
consumption = sa.Table(
    "consumption",
    metadata,
    text("granularity", primary_key=True),
    text("project_id", primary_key=True),
    text("branch_id", primary_key=True),
    sa.Column("start", Microseconds, primary_key=True, nullable=False),
    sa.Column("since", Microseconds, primary_key=True, nullable=False),  # the start of the project's term
    sa.Column("until", Microseconds, nullable=False),
    *[_number(name, sa.Float if name in _SECONDS else sa.BigInteger) for name in FLOW_NAMES],
    *[_number(name) for name in AMOUNT_NAMES],
    *[_number(f"{name}_hours", sa.Float) for name in AMOUNT_NAMES],
    *[_number(f"{name}_{part}") for name in PEAK_NAMES for part in ("highest", "past_hours", "last_hour")],
    sa.Index(None, "granularity", "start"),
    sqlite_with_rowid=False,
)

# The amounts that the newest buckets of a project or branch have, and the term that these belong to.
consumption_amounts = sa.Table(
    "consumption_amounts",
    metadata,
    text("project_id", primary_key=True),
    text("branch_id", primary_key=True),
    sa.Column("since", Microseconds, nullable=False),
    *[_number(name) for name in AMOUNT_NAMES],
)

project_terms = sa.Table(
    "project_terms",
    metadata,
    text("project_id", primary_key=True),
    sa.Column("since", Microseconds, primary_key=True, nullable=False),
    text("org_id"),
    text("plan"),
    timestamp("ended_at", nullable=True),
    boolean("is_first"),
    sa.Index(None, "org_id"),
)

# One row, locked by whoever writes buckets.
consumption_state = sa.Table(
    "consumption_state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    timestamp("began_at"),
)
