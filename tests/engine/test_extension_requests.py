"""Extensions that the operator adds: for all projects or one, and not removed while a database uses them."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bough.config import default_cache
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.extension_uses import ExtensionsInUse, UseCheck
from bough.engine.local.installs import (
    debian_build,
    extension_requests,
    installs,
    npm_build,
    own_packages,
    package_cache,
    selection,
    update,
)
from bough.engine.local.installs.additions import Additions
from bough.engine.local.installs.installs import Install
from bough.engine.local.volumes.extension_record import FILE, ExtensionRecord
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import build_default_settings
from bough.ids import VolumeId
from support.engine_home import Compute, EngineHome, make_branch_spec, temporary_home
from support.extension_builds import EXTENSION, copy_extension, fetch_debian, make_request, shared_downloads
from support.history import read_volume_record
from support.install_cache import add_install, copy_cache

CREATE = f"create extension {EXTENSION}"
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def debian() -> Install:
    return fetch_debian()


@pytest.fixture(scope="module", autouse=True)
def downloads() -> Iterator[None]:
    with shared_downloads():
        yield


@pytest.fixture(scope="module")
def extended(debian: Install) -> Iterator[Install]:
    """The default build with the extension."""
    with copy_cache(debian) as cache, temporary_home(cache=cache) as settings:
        settings.home.mkdir()
        [change] = extension_requests.add(make_request(settings), EXTENSION)
        yield change.after


@pytest.fixture
def cache(debian: Install, extended: Install) -> Iterator[Path]:
    with copy_cache(debian, extended) as folder:
        yield folder


@pytest.fixture
async def home(cache: Path) -> AsyncIterator[EngineHome]:
    with temporary_home(cache=cache) as settings:
        async with EngineHome.open(settings) as opened:
            yield opened


async def restart(compute: Compute) -> None:
    await compute.suspend()
    assert await compute.start() is Readiness.READY


async def add_for_all(home: EngineHome, name: str = EXTENSION) -> None:
    extension_requests.add(make_request(home.settings), name)
    assert "computes now start with" in await home.engine.follow_builds()


async def try_create(compute: Compute) -> str:
    """Create the extension as the role of the project. Return the SQLSTATE of the error, or nothing."""
    try:
        await compute.fetch_value(CREATE)
    except Exception as error:
        return str(getattr(error, "sqlstate", error))
    return ""


def read_extensions(compute: Compute) -> dict[str, tuple[str, ...]] | None:
    record = ExtensionRecord.read(compute.volume_folder)
    return None if record is None or not record.is_complete else dict(record.versions)


async def create_snapshot(compute: Compute) -> Compute:
    copy = Compute(compute.home, replace(compute.spec, volume_id=VolumeId.new()))
    spec = replace(make_branch_spec(copy.spec), source_volume_id=compute.spec.volume_id, is_snapshot=True)
    await compute.home.engine.ensure_branch(spec)
    compute.home.computes.append(copy)
    return copy


async def test_an_extension_is_added_used_and_only_then_removed(
    home: EngineHome, debian: Install, extended: Install
) -> None:
    compute = await home.create_compute()
    assert await try_create(compute) == "0A000", "the build lacks it"
    await add_for_all(home)
    assert await try_create(compute) == "0A000", "a running compute is not disturbed"
    await restart(compute)
    assert await try_create(compute) == ""
    assert await compute.fetch_value("select h3_get_resolution('8928308280fffff'::h3index)") == 9
    templates = home.engine._components.templates
    assert templates.list_names() == {debian.id}, "initdb creates the same with both builds"
    new = await home.create_compute()
    assert read_volume_record(new).template == debian.id
    assert await try_create(new) == ""

    snapshot = await create_snapshot(compute)
    assert EXTENSION in (read_extensions(snapshot) or {}), "a snapshot looks at its source first"
    await new.suspend()
    assert EXTENSION in (read_extensions(new) or {}), "suspension looks, too"
    child = await home.create_child(new)
    assert EXTENSION in (read_extensions(child) or {}), "a clone inherits it"
    await home.engine.ensure_packed(child.spec.project_id, child.spec.volume_id)

    request = make_request(home.settings)
    with pytest.raises(ExtensionsInUse) as refused:
        extension_requests.remove(request, EXTENSION)
    await home.engine.check_extensions()
    with pytest.raises(ExtensionsInUse) as refused:
        extension_requests.remove(request, EXTENSION)
    assert {use.volume_id for use in refused.value.uses} == {
        each.spec.volume_id for each in (compute, new, snapshot, child)
    }
    assert {use.name for use in refused.value.uses} == {EXTENSION}
    with pytest.raises(ExtensionsInUse):
        update.roll_back(home.settings, 17, UseCheck(settings=home.settings))
    assert selection.read(home.settings.home)["debian-17"].current == extended.id, "nothing was changed"

    for each in (snapshot, child, new):
        await each.delete()
        home.computes.remove(each)
    await compute.fetch_value(f"drop extension {EXTENSION}")
    with pytest.raises(ExtensionsInUse):
        extension_requests.remove(request, EXTENSION)
    await home.engine.check_all_extensions()
    [change] = extension_requests.remove(request, EXTENSION)
    assert (change.before, change.after.id) == (change.before, debian.id)
    await home.engine.follow_builds()
    await restart(compute)
    assert await try_create(compute) == "0A000"


async def test_an_extension_of_one_project(home: EngineHome, debian: Install, extended: Install) -> None:
    one, other = [await home.create_compute() for _ in range(2)]
    request = make_request(home.settings, project=one.spec.project_id, pin=one.spec.install)
    [change] = extension_requests.add(request, EXTENSION)
    assert (change.project_id, change.after.id) == (one.spec.project_id, extended.id)
    assert extended.id in await home.engine.follow_builds()
    [build] = [each for each in await home.engine.list_builds() if each.pin == one.spec.install]
    assert (build.id, build.project_builds) == (debian.id, {one.spec.project_id: extended.id})
    assert set(build.outdated) == {one.spec.endpoint_id}
    for each in (one, other):
        await restart(each)
    assert await try_create(one) == ""
    assert await try_create(other) == "0A000"
    child = await home.create_child(one)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select h3_get_resolution('8928308280fffff'::h3index)") == 9
    offered = {
        each.spec.project_id: {
            extension.name
            for extension in (
                await home.engine.list_offered_extensions(each.spec.install, each.spec.project_id)
            ).extensions
        }
        for each in (one, other)
    }
    assert offered[one.spec.project_id] - offered[other.spec.project_id] == {EXTENSION}

    await add_for_all(home)
    assert not any("/" in key for key in selection.read(home.settings.home)), "the project has what all have"
    await restart(one)
    await restart(other)
    assert await try_create(other) == ""
    await home.engine.check_all_extensions()
    with pytest.raises(ExtensionsInUse) as refused:
        extension_requests.remove(request, EXTENSION)
    assert {use.project_id for use in refused.value.uses} == {one.spec.project_id}


async def test_a_project_with_its_own_build_gets_no_spare(cache: Path, extended: Install) -> None:
    with temporary_home(cache=cache, warm_pool=1, warm_memory_share=0.5) as settings:
        async with EngineHome.open(settings) as home:
            pool = home.engine._components.warm
            spec = make_branch_spec((await home.create_compute()).spec)
            settings_of_spares = build_default_settings(0.25)
            install = installs.find_installs(cache)[extended.id]
            assert not await pool.assign(replace(spec, settings=settings_of_spares), install)


async def test_a_volume_without_a_record_counts_as_unknown(home: EngineHome, debian: Install) -> None:
    compute = await home.create_compute()
    await add_for_all(home)
    await compute.suspend()
    (compute.volume_folder / FILE).unlink()
    with pytest.raises(ExtensionsInUse) as refused:
        extension_requests.remove(make_request(home.settings), EXTENSION)
    assert [(use.volume_id, use.name) for use in refused.value.uses] == [(compute.spec.volume_id, "")]
    child = await home.create_child(compute)
    assert read_extensions(child) is None
    await compute.start()
    await child.start()
    await home.engine.check_extensions()
    assert read_extensions(compute) == read_extensions(child) == {}
    (compute.volume_folder / FILE).unlink()
    check = UseCheck(settings=home.settings, ignores_unknown=True)
    [change] = extension_requests.remove(make_request(home.settings, check=check), EXTENSION)
    assert change.after.id == debian.id


async def test_what_a_tenant_closes_counts_as_unknown(home: EngineHome) -> None:
    """A database that the platform cannot open keeps what was known of it."""
    await add_for_all(home)
    compute = await home.create_compute()
    await compute.fetch_value("create extension citext")
    await home.engine.check_all_extensions()
    assert (read_extensions(compute) or {}).keys() == {"citext"}
    await compute.fetch_value("create database closed allow_connections false")
    await home.engine.check_all_extensions()
    record = ExtensionRecord.read(compute.volume_folder)
    assert record is not None
    assert (record.is_complete, set(record.versions)) == (False, {"citext"})
    with pytest.raises(ExtensionsInUse):
        extension_requests.remove(make_request(home.settings), EXTENSION)


async def test_a_program_in_place_of_the_server_is_not_believed(home: EngineHome) -> None:
    """It may never answer: the compute is stopped all the same, and what was recorded stays."""
    compute = await home.create_compute()
    await compute.fetch_value("create extension citext")
    await home.engine.check_all_extensions()
    await compute.fetch_value("create table t (id int)")
    os.kill(compute.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(8):
            await home.engine._components.extension_checks.check_before_stop(compute.spec.endpoint_id)
    finally:
        os.kill(compute.pid, signal.SIGCONT)
    record = ExtensionRecord.read(compute.volume_folder)
    assert record is not None
    assert record.versions.keys() == {"citext"}


@pytest.mark.long
async def test_an_extension_of_ones_own_stays_through_an_update(
    home: EngineHome, cache: Path, debian: Install, tmp_path: Path
) -> None:
    compute = await home.create_compute()
    folder = copy_extension(debian, "seg", tmp_path / "given", "myseg")
    request = make_request(home.settings)
    assert extension_requests.add_own(request, folder)
    assert "myseg: every role" in request.notes[0]
    await home.engine.follow_builds()
    await restart(compute)
    await compute.fetch_value("create extension myseg")
    assert await compute.fetch_value("select '1 .. 2'::seg::text") == "1 .. 2"

    assert update.update(home.settings, request.progress) == [], "the update includes it again, and has nothing newer"
    serving = update.list_serving(home.settings.home, installs.find_installs(cache))
    [own] = Additions.of(serving["debian-17"], cache).own
    assert own.extensions == ("myseg",)
    with pytest.raises(PackageError, match=r"myseg-.* was not built for Postgres 18: remove it"):
        Additions(own=(own,)).check_major(18)
    await home.engine.check_all_extensions()
    with pytest.raises(ExtensionsInUse):
        extension_requests.remove(request, "myseg")
    await compute.fetch_value("drop extension myseg")
    await home.engine.check_all_extensions()
    assert {each.after.id for each in extension_requests.remove(request, "myseg")} == {debian.id}

    other = replace(own, majors=(18,))
    with pytest.raises(EngineError, match="is available for Postgres 18, but this installation runs 17"):
        extension_requests._change(request, "mine", lambda added, _: added.with_own(other), frozenset(other.majors))
    assert own_packages.read(cache, own.id) == own


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("nonsense", "The catalog has no extension nonsense. It has: .*h3"),
        ("vector", "in every build from Debian's packages already"),
        ("hstore", "comes with Postgres"),
        ("plpython3u", "is not offered"),
    ],
)
def test_what_cannot_be_added(tmp_path: Path, name: str, phrase: str) -> None:
    with temporary_home() as settings, pytest.raises(EngineError, match=phrase):
        extension_requests.add(make_request(settings), name)


def test_what_was_not_added_cannot_be_removed(cache: Path) -> None:
    with temporary_home(cache=cache) as settings:
        settings.home.mkdir()
        for name, phrase in (("vector", "part of the default build"), (EXTENSION, "h3 was not added")):
            with pytest.raises(EngineError, match=phrase):
                extension_requests.remove(make_request(settings), name)


def test_a_build_from_elsewhere_cannot_be_extended() -> None:
    with copy_cache(npm_build.fetch(17, default_cache())) as cache, temporary_home(cache=cache) as settings:
        settings.home.mkdir()
        with pytest.raises(EngineError, match=r"comes from npm\. Set debian_mirror.* `bough postgres update`"):
            extension_requests.add(make_request(settings), EXTENSION)


def test_the_versions_of_other_packages_stay(cache: Path, debian: Install) -> None:
    """The mirror has newer ones than the build in use, which are used only if the extension needs them."""
    with Mirrors.open("") as mirrors:
        assert mirrors is not None
        wanted = Additions(requested=("postgresql-17-h3",))
        older = cache / "postgres" / debian.id / "packages.txt"
        newest = debian_build.plan_with(wanted, 17, mirrors)
        lines = [
            f"{each.name} {'0.1' if each.name in ('liblz4-1', 'libh3-1') else each.version} 1 00 pool/x\n"
            for each in newest.packages
        ]
        older.write_text("".join(lines))
        plan = debian_build.plan_with(wanted, 17, mirrors, like=installs.find_installs(cache)[debian.id])
    versions = {each.name: each.version for each in plan.packages}
    needed = {each.name: each.version for each in newest.packages}
    assert versions["libh3-1"] == needed["libh3-1"], "the extension needs a newer one"
    assert versions["liblz4-1"] in ("0.1", needed["liblz4-1"])
    assert versions["zlib1g"] == needed["zlib1g"]


@pytest.mark.parametrize("stage", ["downloading", "unpacking", "selecting"])
def test_a_killed_command_leaves_only_an_unused_build(
    debian: Install, extended: Install, stage: str, tmp_path: Path
) -> None:
    with (
        copy_cache(debian) as cache,
        temporary_home(cache=cache) as settings,
        Mirrors.open("") as mirrors,
        TemporaryDirectory(dir=default_cache(), prefix="test-") as downloads,
    ):
        assert mirrors is not None
        settings.home.mkdir()
        plan = debian_build.plan_with(Additions(requested=extended.requested), 17, mirrors)
        (tmp_path / "plan").write_bytes(pickle.dumps(plan))
        package_cache.download(mirrors, plan.packages, Path(downloads), "", lambda *_: None)
        if stage == "selecting":
            add_install(cache, extended)  # built before
        before = set(installs.find_installs(cache))
        arguments = [str(settings.home), str(cache), str(tmp_path / "plan"), downloads, stage]
        ended = subprocess.run(
            [sys.executable, "-m", "engine.extension_request_child", *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
            capture_output=True,
            text=True,
            check=False,
        )
        found = installs.find_installs(cache)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert set(found) == before
        assert selection.read(settings.home) == {}
        assert update.list_serving(settings.home, found)["debian-17"].id == debian.id
        if stage == "selecting":
            [change] = extension_requests.add(make_request(settings), EXTENSION)
            assert change.after.id == extended.id, "the next attempt uses it"
