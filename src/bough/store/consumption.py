"""Named queries that write the consumption history: buckets, amounts and the terms of projects."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.consumption import AMOUNT_NAMES, FLOW_NAMES, PEAK_NAMES, Amounts, Bucket, Flows, Granularity, Peak
from bough.domain.consumption_periods import ProjectTerm
from bough.ids import BranchId, OrganizationId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import (
    consumption,
    consumption_amounts,
    consumption_state,
    organizations,
    project_terms,
    projects,
)

_STATE = sa.select(consumption_state.c.began_at).with_for_update()
_NEWER = consumption.alias("newer")
_GRANULARITIES = sa.union_all(
    *(sa.select(sa.literal_column(f"'{each.value}'").label("granularity")) for each in Granularity)
).subquery("granularities")
_AMOUNTS_OF_PROJECTS = sa.select(consumption_amounts).where(
    consumption_amounts.c.project_id.in_(sa.bindparam("projects", expanding=True)),
    consumption_amounts.c.branch_id.in_(sa.bindparam("branches", expanding=True)),
)
_ALL_AMOUNTS_OF_PROJECT = sa.select(consumption_amounts).where(equals_param(consumption_amounts.c.project_id))
# The newest bucket of each granularity: the subquery reads one entry of the primary key.
_NEWEST = (
    sa.select(consumption)
    .select_from(consumption_amounts)
    .join(_GRANULARITIES, sa.true())
    .join(
        consumption,
        sa.and_(
            consumption.c.granularity == _GRANULARITIES.c.granularity,
            consumption.c.project_id == consumption_amounts.c.project_id,
            consumption.c.branch_id == consumption_amounts.c.branch_id,
            consumption.c.since == consumption_amounts.c.since,
            consumption.c.start
            == sa.select(sa.func.max(_NEWER.c.start))
            .where(
                _NEWER.c.granularity == _GRANULARITIES.c.granularity,
                _NEWER.c.project_id == consumption_amounts.c.project_id,
                _NEWER.c.branch_id == consumption_amounts.c.branch_id,
                _NEWER.c.since == consumption_amounts.c.since,
            )
            .correlate(_GRANULARITIES, consumption_amounts)
            .scalar_subquery(),
        ),
    )
    .where(
        consumption_amounts.c.project_id.in_(sa.bindparam("projects", expanding=True)),
        consumption_amounts.c.branch_id.in_(sa.bindparam("branches", expanding=True)),
    )
)
_KEY = tuple(consumption.primary_key.columns)
_OF_KEY = [equals_param(column, f"own_{column.name}") for column in _KEY]
_UPDATE = sa.update(consumption).where(*_OF_KEY)
_AFTER = sa.select(consumption).where(
    *(condition for condition, column in zip(_OF_KEY, _KEY, strict=True) if column.name != "start"),
    consumption.c.start > sa.bindparam("after", type_=consumption.c.start.type),
)
_UPDATE_AMOUNTS = sa.update(consumption_amounts).where(
    equals_param(consumption_amounts.c.project_id, "own_project_id"),
    equals_param(consumption_amounts.c.branch_id, "own_branch_id"),
)
_OWNED = sa.select(
    projects.c.id.label("project_id"), projects.c.created_at, projects.c.org_id, organizations.c.plan
).join(organizations, organizations.c.id == projects.c.org_id)
_OPEN_TERM = sa.and_(project_terms.c.project_id == projects.c.id, project_terms.c.ended_at.is_(None))
_HAS_OTHER_TERM = sa.or_(
    project_terms.c.project_id.is_(None),
    project_terms.c.org_id != projects.c.org_id,
    project_terms.c.plan != organizations.c.plan,
)
_CHANGED_TERMS = _OWNED.outerjoin(project_terms, _OPEN_TERM).where(_HAS_OTHER_TERM).order_by(projects.c.id)
_END_TERM = sa.update(project_terms).where(
    equals_param(project_terms.c.project_id, "own_id"), project_terms.c.ended_at.is_(None)
)


@dataclass(frozen=True, slots=True)
class Consumer:
    """Whose consumption is counted: a branch, or without a branch the whole project."""

    project_id: ProjectId
    branch_id: BranchId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAmounts:
    """The amounts that the newest buckets of a consumer have, in its present term."""

    since: datetime
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedProject:
    project_id: ProjectId
    created_at: datetime
    org_id: OrganizationId
    plan: str


class Consumption(Queries):
    async def lock(self) -> datetime:
        """Let nobody else write buckets until the end of the transaction. Return when counting began."""
        began_at: datetime = await self._value(_STATE)
        return began_at

    async def list_changed_terms(self, only: Collection[ProjectId] | None = None) -> list[OwnedProject]:
        """Return projects without a term, and those whose organization or plan is another one now."""
        statement = _CHANGED_TERMS if only is None else _CHANGED_TERMS.where(projects.c.id.in_(only))
        return [from_row(OwnedProject, row) for row in await self._all(statement)]

    async def has_term(self, project_id: ProjectId) -> bool:
        return bool(await self._value(sa.select(sa.exists().where(project_terms.c.project_id == project_id))))

    async def start_term(self, term: ProjectTerm) -> None:
        """End the present term of the project, if it has one."""
        await self._run(_END_TERM, own_id=term.project_id, ended_at=term.since)
        await self._insert(project_terms, to_columns(term))

    async def get_amounts(self, consumers: Collection[Consumer]) -> dict[Consumer, KnownAmounts]:
        return _to_amounts(await self._all(_AMOUNTS_OF_PROJECTS, **_consumer_params(consumers)))

    async def list_amounts(self, project_id: ProjectId) -> dict[Consumer, KnownAmounts]:
        """Return those of the project and all of its branches."""
        return _to_amounts(await self._all(_ALL_AMOUNTS_OF_PROJECT, project_id=project_id))

    async def save_amounts(self, changed: Mapping[Consumer, KnownAmounts], *, known: Collection[Consumer]) -> None:
        """`known` are the consumers that have amounts already."""
        updates, additions = [], []
        for consumer, each in changed.items():
            values = {"since": each.since, **to_columns(each.amounts)}
            if consumer in known:
                updates.append(
                    {"own_project_id": consumer.project_id, "own_branch_id": consumer.branch_id or "", **values}
                )
            else:
                additions.append({**_consumer_columns(consumer), **values})
        await self._run_many(_UPDATE_AMOUNTS, updates)
        await self._insert_many(consumption_amounts, additions)

    async def get_newest_buckets(self, consumers: Collection[Consumer]) -> dict[tuple[Consumer, Granularity], Bucket]:
        """Return the newest buckets of the present terms."""
        found = await self._all(_NEWEST, **_consumer_params(consumers))
        return {(_consumer_of(row), Granularity(row["granularity"])): to_bucket(row) for row in found}

    async def take_later_buckets(
        self, consumer: Consumer, granularity: Granularity, since: datetime, after: datetime
    ) -> list[Bucket]:
        """Remove the buckets that begin later, which exist only after the clock was set back."""
        key = _key(consumer, granularity, since)
        later = [to_bucket(row) for row in await self._all(_AFTER, **key, after=after)]
        for each in later:
            await self._run(sa.delete(consumption).where(*_OF_KEY), **key, own_start=each.start)
        return later

    async def save_buckets(self, changes: Iterable["BucketChange"]) -> None:
        updates, additions = [], []
        for change in changes:
            key = _key(change.consumer, change.granularity, change.since)
            values = bucket_columns(change.bucket)
            if change.is_new:
                additions.append({name.removeprefix("own_"): value for name, value in key.items()} | values)
            else:
                updates.append({**key, "own_start": change.bucket.start, **values})
        await self._run_many(_UPDATE, updates)
        await self._insert_many(consumption, additions)

    async def delete_before(self, granularity: Granularity, moment: datetime) -> int:
        """Delete older buckets, except the last one of each consumer if something is still stored."""
        older = consumption.c.start < moment
        has_newer = sa.exists().where(
            _NEWER.c.granularity == granularity.value,
            *(_NEWER.c[name] == consumption.c[name] for name in ("project_id", "branch_id", "since")),
            _NEWER.c.start > consumption.c.start,
            _NEWER.c.start <= moment,
        )
        is_empty = sa.and_(*(consumption.c[name] == 0 for name in AMOUNT_NAMES))
        return await self._run(
            sa.delete(consumption).where(
                consumption.c.granularity == granularity.value, older, sa.or_(has_newer, is_empty)
            )
        )

    async def delete_project(self, project_id: ProjectId) -> None:
        """Delete everything about a project that nobody has used."""
        for table in (consumption, consumption_amounts, project_terms):
            await self._run(sa.delete(table).where(table.c.project_id == project_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChange:
    consumer: Consumer
    granularity: Granularity
    since: datetime  # the start of the term
    bucket: Bucket
    is_new: bool


def to_bucket(row: Mapping[str, Any]) -> Bucket:
    return Bucket(
        start=row["start"],
        until=row["until"],
        flows=Flows(**{name: row[name] for name in FLOW_NAMES}),
        amounts=_amounts_of(row),
        amount_hours=tuple([row[f"{name}_hours"] for name in AMOUNT_NAMES]),
        peaks=tuple(
            [Peak(*[row[f"{name}_{part}"] for part in ("highest", "past_hours", "last_hour")]) for name in PEAK_NAMES]
        ),
    )


def bucket_columns(bucket: Bucket) -> dict[str, Any]:
    columns = {"start": bucket.start, "until": bucket.until, **to_columns(bucket.flows), **to_columns(bucket.amounts)}
    columns |= {f"{name}_hours": hours for name, hours in zip(AMOUNT_NAMES, bucket.amount_hours, strict=True)}
    for name, peak in zip(PEAK_NAMES, bucket.peaks, strict=True):
        columns |= {f"{name}_{part}": value for part, value in to_columns(peak).items()}
    return columns


def _amounts_of(row: Mapping[str, Any]) -> Amounts:
    return Amounts(**{name: row[name] for name in AMOUNT_NAMES})


def _to_amounts(rows: Sequence[Mapping[str, Any]]) -> dict[Consumer, KnownAmounts]:
    return {_consumer_of(row): KnownAmounts(since=row["since"], amounts=_amounts_of(row)) for row in rows}


def _consumer_of(row: Mapping[str, Any]) -> Consumer:
    return Consumer(ProjectId(row["project_id"]), BranchId(row["branch_id"]) if row["branch_id"] else None)


def _consumer_columns(consumer: Consumer) -> dict[str, str]:
    return {"project_id": consumer.project_id, "branch_id": consumer.branch_id or ""}


def _consumer_params(consumers: Collection[Consumer]) -> dict[str, list[str]]:
    return {
        "projects": list({consumer.project_id for consumer in consumers}),
        "branches": list({consumer.branch_id or "" for consumer in consumers}),
    }


def _key(consumer: Consumer, granularity: Granularity, since: datetime) -> dict[str, Any]:
    columns = {"granularity": granularity.value, **_consumer_columns(consumer), "since": since}
    return {f"own_{name}": value for name, value in columns.items()}
