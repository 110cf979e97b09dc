"""Preloaded libraries: from the next start only, and a compute starts even if they are missing or broken."""

from bough.config import default_cache
from bough.engine.local.installs import download, installs
from bough.engine.port import Readiness
from bough.postgres import preload_libraries
from support.engine_home import Compute, EngineHome, temporary_home
from support.install_cache import copy_cache

LOADED = "show shared_preload_libraries"


def with_libraries(compute: Compute, *names: str) -> dict[str, str]:
    return {**preload_libraries.restrict(compute.spec.settings, ()), **preload_libraries.build_settings(names)}


async def restart(compute: Compute) -> None:
    await compute.suspend()
    assert await compute.start() is Readiness.READY


async def test_libraries_are_preloaded_from_the_next_start(home: EngineHome) -> None:
    compute = await home.create_branch()
    await compute.start(settings=with_libraries(compute))
    pid = compute.pid
    assert (
        await compute.start(settings=with_libraries(compute, "pg_stat_statements", "auto_explain")) is Readiness.READY
    )
    assert (compute.pid, await compute.fetch_value(LOADED)) == (pid, "")
    assert await home.engine.list_preloaded(compute.spec.endpoint_id) == ()
    await restart(compute)
    assert await compute.fetch_value(LOADED) == "pg_stat_statements,auto_explain"
    assert await home.engine.list_preloaded(compute.spec.endpoint_id) == ("pg_stat_statements", "auto_explain")
    await compute.fetch_value("create extension pg_stat_statements")
    assert await compute.fetch_value("select count(*) > 0 from pg_stat_statements")
    pid = compute.pid
    assert await compute.start(settings=with_libraries(compute)) is Readiness.READY
    assert compute.pid == pid
    await restart(compute)
    assert await compute.fetch_value(LOADED) == ""


async def test_a_compute_starts_without_a_library_that_its_build_lacks(home: EngineHome) -> None:
    compute = await home.create_branch()
    settings = with_libraries(compute, "pg_stat_statements", "not_in_any_build")
    assert await compute.start(settings=settings) is Readiness.READY
    assert await compute.fetch_value(LOADED) == "pg_stat_statements"
    assert await home.engine.list_preloaded(compute.spec.endpoint_id) == ("pg_stat_statements",)


async def test_a_compute_starts_without_libraries_with_which_it_does_not_start() -> None:
    install = download.fetch_install(17, default_cache())
    with copy_cache(install) as cache, temporary_home(cache=cache) as settings:
        (installs.find_installs(cache)[install.id].libraries / "broken.so").write_text("not a library")
        async with EngineHome.open(settings) as home:
            compute = await home.create_branch()
            wanted = with_libraries(compute, "broken", "auto_explain")
            assert await compute.start(settings=wanted) is Readiness.READY
            assert (await compute.fetch_value(LOADED), await home.engine.list_preloaded(compute.spec.endpoint_id)) == (
                "",
                (),
            )
            await restart(compute)
            assert await compute.fetch_value(LOADED) == ""
            pid = compute.pid
            assert await compute.start(settings=with_libraries(compute, "auto_explain")) is Readiness.READY
            assert compute.pid == pid
            await restart(compute)
            assert await compute.fetch_value(LOADED) == "auto_explain"
