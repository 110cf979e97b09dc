"""The parameters of the consumption history: times, granularity, metrics and lists of ids."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request

from bough import clock
from bough.api.schemas import IdText, Text
from bough.api.v2.branch_bodies import Timestamp
from bough.domain.calendar_month import start_of_month
from bough.domain.consumption import Granularity
from bough.domain.consumption_metrics import Metric, select_metrics
from bough.domain.consumption_periods import BucketSpan
from bough.errors import CapacityExceeded, Invalid
from bough.ids import Id

MAX_IDS = 100
IdType = TypeVar("IdType", bound=Id)
_HOURS = 168
_DAYS = 60

_From = Annotated[Timestamp, Query(alias="from", description="Begin of the range, rounded down to a bucket")]
_To = Annotated[Timestamp, Query(description="End of the range, rounded down to a bucket; not part of the range")]
_Granularity = Annotated[Granularity, Query()]
OrgId = Annotated[IdText | None, Query()]
RequiredOrgId = Annotated[IdText, Query()]
Names = Annotated[list[Text] | None, Query(description="Names, repeated or joined by commas")]
Ids = Annotated[list[Text] | None, Query(description="Ids, repeated or joined by commas")]
Cursor = Annotated[Text | None, Query()]


async def _to_span(begin: _From, to: _To, granularity: _Granularity) -> BucketSpan:
    """Round both ends down; the result contains at least one bucket."""
    now = clock.now()
    earliest = _earliest(granularity, now)
    try:
        begin, end = begin.astimezone(UTC), to.astimezone(UTC)
    except OverflowError:
        raise Invalid("from and to: use times between the years 2 and 9998.") from None
    start, stop = granularity.start_of(begin), granularity.start_of(end)
    if start < earliest:
        raise _out_of_range(
            f"from is too early for the granularity {granularity}: the earliest is {_format(earliest)}. "
            "Choose a later time, or a coarser granularity."
        )
    if begin > end:
        raise _out_of_range("from is after to. Exchange them.")
    if start == stop and start <= now:
        stop = granularity.end_of(start)
    return BucketSpan(granularity=granularity, start=start, end=min(stop, now), now=now)


SpanDep = Annotated[BucketSpan, Depends(_to_span)]


def _earliest(granularity: Granularity, now: datetime) -> datetime:
    """Return the limit rounded down, so that a time exactly so long ago is accepted."""
    if granularity is Granularity.MONTHLY:
        month = start_of_month(now)
        return month.replace(year=month.year - 1)
    long_ago = timedelta(hours=_HOURS) if granularity is Granularity.HOURLY else timedelta(days=_DAYS)
    return granularity.start_of(now - long_ago)


def _out_of_range(message: str) -> CapacityExceeded:
    return CapacityExceeded(message, code="", details={})


def _format(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def parse_names(request: Request, name: str) -> list[str]:
    """Return all elements of an array that is written repeatedly, joined by commas, or with brackets."""
    given = [*request.query_params.getlist(name), *request.query_params.getlist(f"{name}[]")]
    return [element.strip() for text in given for element in text.split(",") if element.strip()]


def parse_ids(request: Request, name: str, kind: type[IdType]) -> list[IdType] | None:
    """Return None, which means no filter, if there is no element."""
    found = dict.fromkeys(parse_names(request, name))
    if len(found) > MAX_IDS:
        raise Invalid(f"{name}: {len(found)} ids are too many; at most {MAX_IDS} are possible in one request.")
    return [kind.parse(each) for each in found] or None


def parse_metrics(request: Request, known: Sequence[Metric], *, is_required: bool = False) -> tuple[Metric, ...]:
    """Return the metrics that were asked for, which may be none unless they are required."""
    names = parse_names(request, "metrics")
    if is_required and not names:
        raise Invalid(f"metrics: name at least one of {', '.join(metric.name for metric in known)}.")
    return select_metrics(names, known)
