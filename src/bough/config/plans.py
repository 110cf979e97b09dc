"""Plans: the limits of accounts, and the plans that exist unless the operator sets others."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field


def _check_quiet_hours(hours: tuple[int, int]) -> tuple[int, int]:
    if not 0 <= hours[0] < hours[1] <= 24:
        raise ValueError("give two hours of one day, 0 to 24, the first smaller than the second")
    return hours


QuietHours = Annotated[tuple[int, int], AfterValidator(_check_quiet_hours)]  # from and until, UTC
Weekdays = Annotated[tuple[Annotated[int, Field(ge=1, le=7)], ...], Field(min_length=1)]


class PlanQuota(BaseModel, frozen=True, extra="forbid"):
    """The quota of projects that have none of their own. 0: unlimited."""

    active_time_seconds: int = 0
    compute_time_seconds: int = 0
    written_data_bytes: int = 0
    data_transfer_bytes: int = 0
    logical_size_bytes: int = 0


class Plan(BaseModel, frozen=True, extra="forbid"):
    """The limits of an account. New accounts have the plan `free`; unclaimed instant databases have `unclaimed`."""

    organizations: int = 10  # that a person creates, in addition to the personal one
    projects: int = 100  # in all organizations with this plan that one person created
    branches: int = 500  # per project
    endpoints: int = 500  # per project
    roles: int = 500  # per branch
    databases: int = 500  # per branch
    snapshots: int = 10  # per project
    storage_bytes: int = 512 * 1024**2  # per branch
    transfer_bytes: int = 5 * 1024**3  # sent to clients, per project and month
    history_seconds: int = 7 * 86400
    max_cu: float = 8
    quota: PlanQuota = PlanQuota()
    quiet_hours: QuietHours | None = None  # None: those of the setting; the default maintenance window is in them
    quiet_weekdays: Weekdays | None = None


DEFAULT_PLANS = {
    "free": Plan(),
    "unlimited": Plan(
        organizations=100_000,
        projects=1_000_000,
        branches=100_000,
        endpoints=100_000,
        roles=100_000,
        databases=100_000,
        snapshots=100_000,
        storage_bytes=16 * 1024**4,
        transfer_bytes=1024**5,
        history_seconds=30 * 86400,
        max_cu=64,
    ),
    "unclaimed": Plan(
        projects=1000,  # in total
        branches=1,
        endpoints=1,
        snapshots=0,
        storage_bytes=100 * 1024**2,
        transfer_bytes=1024**3,  # until it is claimed or deleted
        history_seconds=0,
    ),
}
