"""60 days of consumption by day, for a page of 100 out of 1,000 projects that have a year of history.

The baseline is the same platform's page of 100 projects: as many objects of a similar size as the answer has projects,
without their buckets.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx2
import sqlalchemy as sa

from bench import load, machine, population, program
from bench.load import RequestTarget
from bench.machine import Cores
from bench.program import Program
from bench.promise import Check, Measurement, Promise, make_ratio, percentile
from bough import clock
from bough.config import Settings
from bough.domain.consumption import Amounts, Bucket, Flows, Granularity, record
from bough.store.consumption import bucket_columns
from bough.store.row_mapping import to_columns
from bough.store.tables import consumption, consumption_amounts, project_terms, projects

PROJECTS, PAGE, DAYS = 1_000, 100, 60
ROUNDS, SECONDS = 7, 3.0
HISTORY = timedelta(days=366)
MOST_MILLISECONDS = 100.0
METRICS = (
    "compute_unit_seconds,root_branch_bytes_month,child_branch_bytes_month,instant_restore_bytes_month,"
    "snapshot_storage_bytes_month,public_network_transfer_bytes,private_network_transfer_bytes,extra_branches_month"
)
_MEASURE_INTERVAL = timedelta(hours=3)  # between two changes of what a project stores


def measure() -> Promise:
    cores = Cores.of_this_machine()
    with program.run_platform() as platform:
        population.insert_projects(platform.settings, PROJECTS)
        rows = insert_history(platform.settings)
        targets = {name: _target(name, platform, path) for name, path in _paths().items()}
        body = _read(platform, _paths()["consumption"])
        samples: dict[str, list[list[float]]] = {name: [] for name in targets}
        machine.pin(platform.control_pid, cores.server)
        with machine.pinned(cores.load):
            for _ in range(ROUNDS):
                for name, target in targets.items():
                    samples[name].append(load.run_load(target, connections=1, seconds=SECONDS).latencies)
    figures = {
        (name, share): Measurement(
            name=f"{name}: p{share:.0%}".replace("%", ""),
            unit="ms",
            samples=tuple(percentile(each, share) * 1e3 for each in rounds),
            below=MOST_MILLISECONDS if (name, share) == ("consumption", 0.99) else None,
        )
        for name, rounds in samples.items()
        for share in (0.5, 0.99)
    }
    buckets = sum(len(period["consumption"]) for project in body["projects"] for period in project["periods"])
    return Promise(
        name="consumption",
        sentence=f"{DAYS} days of consumption by day, for {PAGE} of {PROJECTS:,} projects, take less than "
        f"{MOST_MILLISECONDS:g} ms.",
        measurements=tuple(figures.values()),
        ratios=(
            make_ratio(
                "p99, consumption to a page of projects", figures["consumption", 0.99], figures["projects", 0.99]
            ),
        ),
        checks=(
            Check(name=f"the answer has {PAGE} projects", true=len(body["projects"]) == PAGE),
            Check(name="every day of every project is there", true=buckets == PAGE * (DAYS + 1)),
        ),
        how=(
            f"`bough up`, SQLite store, rate limits raised; {PROJECTS:,} projects with a year of history, active every "
            f"day: {rows:,} buckets; control pinned to core {cores.server}, the load to core {cores.load}",
            f"GET /consumption_history/v2/projects, daily, limit={PAGE}, all {METRICS.count(',') + 1} metrics; one "
            f"connection, {ROUNDS} rounds of {SECONDS:g} s",
        ),
        baseline=(f"GET /projects?limit={PAGE} of the same platform",),
    )


def insert_history(settings: Settings) -> int:
    """Give every project a year of buckets, as counting would have written and kept them. Return their number."""
    engine = sa.create_engine(f"sqlite:///{settings.store_file}", connect_args={"timeout": 60})
    now = clock.now()
    begin, count = now - HISTORY, 0
    kept = list(_buckets(begin, now))
    with engine.begin() as connection:
        connection.execute(sa.update(projects).values(created_at=begin))
        found = connection.execute(sa.select(projects.c.id, projects.c.org_id)).all()
        for table in (consumption, consumption_amounts, project_terms):
            connection.execute(sa.delete(table))
        for project_id, org_id in found:
            term = {"project_id": project_id, "since": begin, "org_id": org_id, "plan": "free", "is_first": True}
            connection.execute(sa.insert(project_terms), term)
            owner = {"project_id": project_id, "branch_id": "", "since": begin}
            connection.execute(sa.insert(consumption_amounts), {**owner, **to_columns(kept[-1][1].amounts)})
            rows = [{**owner, "granularity": each.value, **bucket_columns(bucket)} for each, bucket in kept]
            connection.execute(sa.insert(consumption), rows)
            count += len(rows)
    with engine.connect() as connection:
        connection.exec_driver_sql("pragma wal_checkpoint(truncate)")
    engine.dispose()
    return count


def _buckets(begin: datetime, now: datetime) -> Iterator[tuple[Granularity, Bucket]]:
    oldest = {
        Granularity.HOURLY: now - timedelta(days=8),
        Granularity.DAILY: now - timedelta(days=61),
        Granularity.MONTHLY: begin,
    }
    for granularity, kept_since in oldest.items():
        start = granularity.start_of(begin)
        bucket, at, number = Bucket.begin(start, begin, Amounts()), begin, 0
        while at < now:
            at, number = min(at + _MEASURE_INTERVAL, now), number + 1
            size = 10**9 + number * 10**6
            stored = Amounts(root_bytes=size, history_bytes=size // 3, stored_bytes=size * 4 // 3, logical_bytes=size)
            flows = Flows(active_seconds=100.0, compute_seconds=25.0, bytes_out=10**6, written_bytes=10**7)
            *closed, bucket = record(bucket, granularity, at, flows, stored)
            yield from ((granularity, each) for each in closed if each.start >= kept_since)
        yield granularity, bucket


def _paths() -> dict[str, str]:
    now = clock.now()
    start = (now - timedelta(days=DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
    query = f"from={_text(start)}&to={_text(now + timedelta(days=1))}&granularity=daily&limit={PAGE}"
    own = f"org_id={population.ORGANIZATION}&metrics={METRICS}"
    return {
        "consumption": f"/api/v2/consumption_history/v2/projects?{query}&{own}",
        "projects": f"/api/v2/projects?limit={PAGE}",
    }


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _target(name: str, platform: Program, path: str) -> RequestTarget:
    return RequestTarget(name=name, port=platform.port, path=path, key=platform.key)


def _read(platform: Program, path: str) -> dict[str, list[dict[str, list[dict[str, list[object]]]]]]:
    with httpx2.Client(headers={"Authorization": f"Bearer {platform.key}"}, timeout=60) as client:
        response = client.get(f"http://127.0.0.1:{platform.port}{path}").raise_for_status()
    body: dict[str, list[dict[str, list[dict[str, list[object]]]]]] = json.loads(response.text)
    return body
