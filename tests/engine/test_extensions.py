"""The extensions of the catalog, created and used by a tenant: on a branch, after a restore, and on a replica."""

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import pytest

from bough.domain.history import Point
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_build, selection
from bough.engine.local.installs.selection import SelectedInstall
from bough.engine.port import Readiness
from bough.postgres import preload_libraries, scheduled_jobs
from bough.postgres.extensions import catalog
from bough.postgres.extensions.extension import Extension
from engine.added_extension_examples import ADDED_EXAMPLES, ADDED_PRELOADED
from engine.extension_examples import EXAMPLES, PRELOADED, Example
from engine.point_in_time import create_branch_at
from support.engine_home import Compute, EngineHome, temporary_home
from support.extension_builds import fetch_debian
from support.install_cache import copy_cache
from support.replicas import insert_numbers, start_replica, wait_for_numbers

MAJOR = 17


def build_settings(compute: Compute, libraries: Sequence[str]) -> dict[str, str]:
    jobs = scheduled_jobs.build_settings(libraries, database="neondb", is_copy=False)
    return {**compute.spec.settings, **jobs, **preload_libraries.build_settings(libraries)}


async def create_extensions(compute: Compute, examples: Iterable[Example]) -> None:
    async with compute.connect() as db:
        for name in dict.fromkeys(each.extension for each in examples):
            await db.execute(f"create extension if not exists {name} cascade")
        for example in examples:
            await db.execute(example.setup)


async def check(example: Example, compute: Compute) -> None:
    async with compute.connect() as db, db.transaction():
        await db.execute(example.before)
        if example.explains:
            plan = "\n".join(row[0] for row in await db.fetch(f"explain {example.query}"))
            assert example.expected in plan
        else:
            assert await db.fetchval(example.query) == example.expected
    assert example.logs in compute.log_file.read_text()


async def check_all(compute: Compute, examples: Iterable[Example], *, is_replica: bool = False) -> None:
    for example in examples:
        if example.works_on_replica or not is_replica:
            await check(example, compute)


def test_each_extension_of_the_default_build_has_an_example() -> None:
    created = {each.name for each in catalog.EXTENSIONS if each.is_in_default_build and each.has_control_file}
    assert {each.extension for each in EXAMPLES} == created


@pytest.mark.long
def test_each_extension_that_can_be_added_has_an_example() -> None:
    added = {each.name for each in list_allowed() if not each.is_in_default_build and each.has_control_file}
    assert {each.extension for each in ADDED_EXAMPLES} >= added


async def test_extensions_work_on_branches_after_restores_and_on_replicas(home: EngineHome) -> None:
    await check_everywhere(home, EXAMPLES, PRELOADED)


@pytest.mark.long
async def test_added_extensions_work_on_branches_after_restores_and_on_replicas() -> None:
    default = fetch_debian()
    with copy_cache(default) as cache, temporary_home(cache=cache) as settings, Mirrors.open("") as mirrors:
        assert mirrors is not None
        packages = sorted({each.package_for(MAJOR) for each in list_allowed()})
        install = debian_build.build(debian_build.plan_newest(MAJOR, mirrors, packages), mirrors, cache)
        settings.home.mkdir()
        selection.write(settings.home, {default.pin: SelectedInstall(current=install.id)})
        async with EngineHome.open(settings) as home:
            await check_everywhere(home, ADDED_EXAMPLES, ADDED_PRELOADED)


def list_allowed() -> list[Extension]:
    return [each for each in catalog.EXTENSIONS if each.is_allowed and MAJOR in each.majors]


async def check_everywhere(home: EngineHome, examples: Sequence[Example], libraries: tuple[str, ...]) -> None:
    primary = await home.create_branch(MAJOR)
    assert await primary.start(settings=build_settings(primary, libraries)) is Readiness.READY
    assert await home.engine.list_preloaded(primary.spec.endpoint_id) == libraries
    await create_extensions(primary, examples)
    await check_all(primary, examples)
    point = Point(at=await primary.fetch_value("select clock_timestamp()"))
    await insert_numbers(primary, 1)
    replica = await start_replica(primary)
    await wait_for_numbers(replica, 1)
    await check_all(replica, examples, is_replica=True)
    await replica.suspend()
    restored, _ = await create_branch_at(primary, point)
    assert await restored.start() is Readiness.READY
    await check_all(restored, examples)
    await restored.suspend()
    child = await home.create_child(primary)
    assert await child.start() is Readiness.READY
    await check_all(child, examples)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("pgaudit", "needs its library to be preloaded", "preload_libraries.enabled_libraries"),
        ("pg_hint_plan", "needs its library to be preloaded", "preload_libraries.enabled_libraries"),
        ("pg_cron", "needs its library to be preloaded", "preload_libraries.enabled_libraries"),
        ("postgis", "is not part of this build", "bough extensions add postgis"),
        ("http", "is not offered", "opens connections to addresses"),
        ("pg_repack", "is not offered", "Use REINDEX CONCURRENTLY"),
        ("wal2json", "is an output plugin", "enable_logical_replication"),
    ],
)
async def test_an_extension_that_cannot_be_created_says_why(
    tenant_compute: Compute, name: str, message: str, hint: str
) -> None:
    async with tenant_compute.connect() as db:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await db.execute(f"create extension {name}")
    assert message in str(refused.value)
    assert hint in str(refused.value.as_dict()["hint"])


async def test_an_extension_that_has_no_effect_yet_says_so(home: EngineHome) -> None:
    compute = await home.create_branch()
    await compute.start(settings=preload_libraries.restrict(compute.spec.settings, ()))
    warnings: list[Any] = []
    async with compute.connect() as db:
        db.add_log_listener(lambda _, message: warnings.append(message))
        await db.execute("create extension pg_stat_statements")
        await db.execute("drop extension pg_stat_statements")
    [warning] = warnings
    assert "has no effect until its library is preloaded" in warning.message
    assert "preload_libraries.enabled_libraries" in warning.hint
