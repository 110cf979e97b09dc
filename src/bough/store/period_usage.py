"""SQL expressions for what a project or branch has used in the present month: what is counted, and what is not yet.

The months of a claimed project before its claim do not count. A transfer to another organization changes nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.calendar_month import start_of_month
from bough.domain.consumption import Granularity, to_microseconds
from bough.domain.consumption_metrics import NO_REST, STORED_HOURS_METRIC, Evaluator, Rest
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.store.queries import equals_param
from bough.store.tables import branches, consumption, endpoints, project_terms, projects, usage

_MONTHLY = consumption.c.granularity == Granularity.MONTHLY.value
_IS_PRESENT = consumption.c.start == sa.bindparam("month", type_=consumption.c.start.type)
_owners = projects.alias("owners")
_WAS_UNCLAIMED = sa.exists().where(
    project_terms.c.project_id == consumption.c.project_id,
    project_terms.c.since == consumption.c.since,
    project_terms.c.org_id == UNCLAIMED_ORGANIZATION,
    _owners.c.id == project_terms.c.project_id,
    _owners.c.org_id != UNCLAIMED_ORGANIZATION,
)


# The newest rows: those of this month, or the last one before it.
STORED_HOURS = (
    sa.select(consumption, project_terms.c.org_id)
    .join(
        project_terms,
        sa.and_(project_terms.c.project_id == consumption.c.project_id, project_terms.c.since == consumption.c.since),
    )
    .where(_MONTHLY, equals_param(consumption.c.project_id), consumption.c.branch_id == "")
    .order_by(consumption.c.start.desc(), consumption.c.since.desc())
    .limit(10)
)


def sum_stored_hours(rows: Sequence[Mapping[str, Any]], org_id: str, now: datetime) -> float:
    """Return the byte-hours that the project has stored in the month, from the rows of STORED_HOURS."""
    month, evaluator = start_of_month(now), Evaluator([STORED_HOURS_METRIC])
    end = to_microseconds(now)
    total = 0.0
    for number, row in enumerate(rows):
        values = [None, None, *(row[name] for name in evaluator.columns)]
        if row["org_id"] == UNCLAIMED_ORGANIZATION != org_id:
            continue
        is_newest = number == 0  # the others are closed
        if row["start"] >= month:
            rest = Rest.of(to_microseconds(row["until"]), end, is_held=False) if is_newest else NO_REST
            total += sum(evaluator.compute(values, rest))
        elif is_newest:
            rest = Rest.of(to_microseconds(month), end, is_held=True)
            total += sum(evaluator.compute(evaluator.hold(values), rest))
    return total


def month_param(now: datetime) -> dict[str, datetime]:
    """Return the parameter that these expressions need."""
    return {"month": start_of_month(now)}


def of_project(name: str) -> sa.Label[Any]:
    """Sum up a column of the project's usage in the month."""
    counted = sa.select(sa.func.sum(consumption.c[name])).where(
        _MONTHLY,
        consumption.c.project_id == projects.c.id,
        consumption.c.branch_id == "",
        _IS_PRESENT,
        ~_WAS_UNCLAIMED,
    )
    uncounted = sa.select(sa.func.sum(usage.c[name])).where(usage.c.project_id == projects.c.id)
    return _add(counted, uncounted).label(f"used_{name}")


def sent_ever() -> sa.Label[Any]:
    """What was sent to clients of the project since its creation."""
    counted = sa.select(sa.func.sum(consumption.c.bytes_out)).where(
        _MONTHLY, consumption.c.project_id == projects.c.id, consumption.c.branch_id == ""
    )
    uncounted = sa.select(sa.func.sum(usage.c.bytes_out)).where(usage.c.project_id == projects.c.id)
    return _add(counted, uncounted).label("sent_bytes")


def of_branch(name: str) -> sa.Label[Any]:
    """Sum up a column of the branch's usage in the month, of deleted endpoints, too."""
    counted = sa.select(sa.func.sum(consumption.c[name])).where(
        _MONTHLY,
        consumption.c.project_id == branches.c.project_id,
        consumption.c.branch_id == branches.c.id,
        _IS_PRESENT,
        ~_WAS_UNCLAIMED,
    )
    uncounted = (
        sa.select(sa.func.sum(usage.c[name]))
        .join(endpoints, endpoints.c.id == usage.c.endpoint_id)
        .where(endpoints.c.branch_id == branches.c.id)
    )
    return _add(counted, uncounted).label(f"used_{name}")


def _add(*parts: sa.Select[Any]) -> sa.ColumnElement[Any]:
    counted, uncounted = (sa.func.coalesce(part.scalar_subquery(), 0) for part in parts)
    return counted + uncounted
