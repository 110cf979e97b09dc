"""Named queries on the usage of endpoints and on the gateway workers that report it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.consumption import FLOW_NAMES, Flows
from bough.domain.endpoint import Endpoint
from bough.domain.usage import EndpointTraffic, EndpointUsage
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import endpoints, gateway_workers, usage

_own = equals_param(usage.c.endpoint_id, "own_id")
_ONE = sa.select(usage).where(_own)
_COUNTED_AT = sa.select(usage.c.counted_at).where(_own)


def _increased(name: str) -> sa.ColumnElement[float]:
    return usage.c[name] + sa.bindparam(f"more_{name}", type_=usage.c[name].type)


_TRAFFIC_COLUMNS = ("bytes_in", "bytes_out", "private_in", "private_out", "connections_opened")
_ADD_TRAFFIC = (
    sa.update(usage).where(_own).values({name: _increased(name) for name in _TRAFFIC_COLUMNS} | {"is_uncounted": True})
)
_ADD_WRITTEN = sa.update(usage).where(_own).values(written_bytes=_increased("written_bytes"), is_uncounted=True)
_ADD_TIME = (
    sa.update(usage)
    .where(_own)
    .values(
        is_uncounted=True,
        active_seconds=_increased("active_seconds"),
        compute_seconds=_increased("compute_seconds"),
        counted_at=sa.bindparam("until", type_=usage.c.counted_at.type),
    )
)
_run = sa.bindparam("run", type_=usage.c.cpu_run.type)
_cpu_seconds = sa.bindparam("run_cpu_seconds", type_=usage.c.cpu_run_seconds.type)
_counted_cpu = sa.case((usage.c.cpu_run == _run, usage.c.cpu_run_seconds), else_=0.0)  # of this run
_ADD_CPU = (
    sa.update(usage)
    .where(_own, _counted_cpu <= _cpu_seconds)
    .values(
        cpu_seconds=usage.c.cpu_seconds + _cpu_seconds - _counted_cpu,
        cpu_run=_run,
        cpu_run_seconds=_cpu_seconds,
        is_uncounted=True,
    )
)
_RUNNING = (
    sa.select(usage.c.endpoint_id, usage.c.counted_at, endpoints.c.max_cu)
    .join(endpoints, endpoints.c.id == usage.c.endpoint_id)
    .where(usage.c.counted_at.is_not(None))
    .order_by(usage.c.endpoint_id)
)
_UNCOUNTED = (
    sa.select(usage, endpoints.c.branch_id)
    .join(endpoints, endpoints.c.id == usage.c.endpoint_id)
    .where(sa.text("usage.is_uncounted"))  # written exactly as in the partial index
    .order_by(usage.c.endpoint_id)
    .with_for_update(of=usage)
)
_UNCOUNTED_IN_PROJECT = _UNCOUNTED.where(equals_param(usage.c.project_id))


def _decreased(name: str) -> sa.ColumnElement[float]:
    return usage.c[name] - sa.bindparam(f"less_{name}", type_=usage.c[name].type)


_DEDUCT = (
    sa.update(usage)
    .where(_own)
    .values({name: _decreased(name) for name in FLOW_NAMES} | {"is_uncounted": sa.bindparam("remains")})
)
_LAST_SEQUENCE = sa.select(gateway_workers.c.sequence).where(equals_param(gateway_workers.c.id)).with_for_update()
_UPDATE_SEQUENCE = sa.update(gateway_workers).where(equals_param(gateway_workers.c.id, "worker"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredCompute:
    """A compute whose running time is being metered."""

    endpoint_id: EndpointId
    counted_at: datetime
    max_cu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedUsage:
    """What an endpoint has used and the consumption history does not contain yet."""

    endpoint_id: EndpointId
    project_id: ProjectId
    branch_id: BranchId
    flows: Flows


class Usages(Queries):
    async def get(self, endpoint_id: EndpointId) -> EndpointUsage | None:
        row = await self._one(_ONE, own_id=endpoint_id)
        return from_row(EndpointUsage, row) if row else None

    async def add_traffic(self, traffic: EndpointTraffic) -> None:
        """Do nothing if the endpoint has been deleted."""
        await self._run(
            _ADD_TRAFFIC,
            own_id=traffic.endpoint_id,
            more_bytes_in=traffic.bytes_in,
            more_bytes_out=traffic.bytes_out,
            more_private_in=traffic.private_in,
            more_private_out=traffic.private_out,
            more_connections_opened=traffic.connections_opened,
        )

    async def add_written(self, endpoint_id: EndpointId, written_bytes: int) -> None:
        """Add WAL that the endpoint's compute has written."""
        await self._run(_ADD_WRITTEN, own_id=endpoint_id, more_written_bytes=written_bytes)

    async def lock_uncounted(self, project_id: ProjectId | None = None) -> list[UncountedUsage]:
        """Return the usage that is not counted yet, and lock it until the end of the transaction."""
        if project_id is None:
            found = await self._all(_UNCOUNTED)
        else:
            found = await self._all(_UNCOUNTED_IN_PROJECT, project_id=project_id)
        return [_to_uncounted(row) for row in found]

    async def deduct(self, counted: Sequence[tuple[EndpointId, Flows]], *, remains: bool = False) -> None:
        """Deduct what was counted. `remains` says that some of the usage is still not counted."""
        await self._run_many(
            _DEDUCT,
            [
                {"own_id": endpoint, "remains": remains} | {f"less_{name}": getattr(flows, name) for name in FLOW_NAMES}
                for endpoint, flows in counted
            ],
        )

    async def add_cpu(self, endpoint_id: EndpointId, run_started_at: datetime, seconds: float) -> bool:
        """Add what is new since the last sample of this run. Return False if an earlier sample was higher."""
        return await self._run(_ADD_CPU, own_id=endpoint_id, run=run_started_at, run_cpu_seconds=seconds) == 1

    async def list_metered(self) -> list[MeteredCompute]:
        return [from_row(MeteredCompute, row) for row in await self._all(_RUNNING)]

    async def start_metering(self, endpoint_id: EndpointId, now: datetime) -> None:
        """Start to meter the running time of the endpoint's compute."""
        await self._add_time(endpoint_id, 0.0, 0.0, now)

    async def stop_metering(self, endpoint: Endpoint, now: datetime, cu: float | None = None) -> None:
        """Add the time until now if it was metered. `cu` is the compute's size, by default the maximum size."""
        since = await self._value(_COUNTED_AT, own_id=endpoint.id)
        if since is not None:
            await self._add_time(endpoint.id, _seconds(since, now), cu or endpoint.max_cu, None)

    async def add_running_time(
        self,
        computes: Iterable[MeteredCompute],
        now: datetime,
        *,
        running: Collection[EndpointId],
        sizes: Mapping[EndpointId, float],
    ) -> None:
        """Add the time since the last count for computes in `running`, and set the start of the next count to now."""
        times = [
            _time_params(
                each.endpoint_id,
                _seconds(each.counted_at, now) if each.endpoint_id in running else 0.0,
                sizes.get(each.endpoint_id) or each.max_cu,
                now,
            )
            for each in computes
        ]
        await self._run_many(_ADD_TIME, times)

    async def _add_time(self, endpoint_id: EndpointId, seconds: float, cu: float, until: datetime | None) -> None:
        await self._run(_ADD_TIME, **_time_params(endpoint_id, seconds, cu, until))


def _to_uncounted(row: Mapping[str, Any]) -> UncountedUsage:
    return UncountedUsage(
        endpoint_id=EndpointId(row["endpoint_id"]),
        project_id=ProjectId(row["project_id"]),
        branch_id=BranchId(row["branch_id"]),
        flows=Flows(**{name: row[name] for name in FLOW_NAMES}),
    )


def _time_params(endpoint_id: EndpointId, seconds: float, cu: float, until: datetime | None) -> dict[str, Any]:
    return {
        "own_id": endpoint_id,
        "more_active_seconds": seconds,
        "more_compute_seconds": seconds * cu,
        "until": until,
    }


def _seconds(since: datetime, now: datetime) -> float:
    """Return 0 if the clock was set back."""
    return max(0.0, (now - since).total_seconds())


class GatewayWorkers(Queries):
    async def record_report(self, worker: str, sequence: int, now: datetime) -> bool:
        """Store the sequence number of a report. Return False if the report has been counted before."""
        last = await self._value(_LAST_SEQUENCE, id=worker)
        if last is None:
            await self._insert(gateway_workers, {"id": worker, "sequence": sequence, "seen_at": now})
            return True
        if sequence <= last:
            return False
        await self._run(_UPDATE_SEQUENCE, worker=worker, sequence=sequence, seen_at=now)
        return True

    async def delete_before(self, moment: datetime) -> int:
        return await self._run(sa.delete(gateway_workers).where(gateway_workers.c.seen_at < moment))
