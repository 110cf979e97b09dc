"""The cost of sampling running computes: CPU time of the platform and of all computes, with sampling minus without.

Windows with and without sampling alternate on the same computes. One in five is busy: a client inserts a row and reads
it once a second. The others are idle. Control's services and tasks run in this process, with the engine and the store
that `bough up` uses; only the tasks that sample and roll up differ between the windows.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg
import httpx2

from bench import machine, project_client, storage
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.stopwatch import Times
from bench.storage import RequirementMissing
from bough import app
from bough.api.app import create_app
from bough.app import Platform
from bough.background_task import run_in_background
from bough.config import Settings
from bough.domain.gateway_protocol import ComputeAddress
from bough.domain.metrics.tiers import SAMPLE_SECONDS
from bough.engine.local.computes.process_usage import read_cpu_seconds
from bough.engine.local.computes.runs import ComputeRuns
from bough.engine.local.folders import Folders
from bough.ids import EndpointId
from bough.tasks.loop import Loop
from bough.tasks.sample_computes import SampleComputes

DRIVER = "reflink"
COMPUTE_MB = 20  # of memory for one more
BUSY_SHARE = 5  # one in so many computes is busy
LIMIT = 3.0  # percent of a core
WITH, WITHOUT = "with sampling", "without sampling"
_NO_LIMITS = {"rate_per_minute": 10**9, "rate_per_second_and_route": 10**9}
_NEVER_SUSPEND_SECONDS = 604800
_CREATED_AT_ONCE = 8
_SAMPLING_LOOPS = ("samples", "metrics")


@dataclass(slots=True)
class SamplingSamples:
    computes: int
    busy: int
    storage_description: str = ""
    cpu: Times = field(default_factory=lambda: {WITH: [], WITHOUT: []})  # percent of a core, of everything
    computes_cpu: Times = field(default_factory=lambda: {WITH: [], WITHOUT: []})  # of the computes alone
    stored_bytes: list[float] = field(default_factory=list)  # per sample of a compute


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements((DRIVER,), 4 + 0.05 * sizes.sampled)
    available = machine.read_meminfo()["MemAvailable"] / 1024**2
    if available < sizes.sampled * COMPUTE_MB:
        raise RequirementMissing(f"{sizes.sampled} computes need {sizes.sampled * COMPUTE_MB} MB of memory.")
    yield _build_promise(asyncio.run(_measure(sizes)), sizes)


async def _measure(sizes: Sizes) -> SamplingSamples:
    samples = SamplingSamples(computes=sizes.sampled, busy=max(1, sizes.sampled // BUSY_SHARE))
    async with _open_platform(sizes) as (platform, description):
        samples.storage_description = description
        endpoints = await _create_projects(platform, sizes.sampled)
        async with _load(platform, endpoints[: samples.busy]):
            await asyncio.sleep(sizes.sampling_seconds / 2)
            for ordered in rotate_rounds([WITHOUT, WITH]):
                for kind in ordered:
                    await _measure_window(platform, samples, kind, sizes.sampling_seconds)
        await platform.engine.retain_sessions(())
        async with platform.services.store.read() as rows:
            sizes_of_moments = [
                group.bytes for group in await rows.metrics.list_sizes() if group.step == SAMPLE_SECONDS
            ]
        samples.stored_bytes = [stored / samples.computes for stored in sizes_of_moments]
        for endpoint in (await platform.engine.observe()).running_endpoints:
            await platform.engine.ensure_suspended(endpoint)
    return samples


@asynccontextmanager
async def _open_platform(sizes: Sizes) -> AsyncIterator[tuple[Platform, str]]:
    with storage.create_storage_home(DRIVER, 8 + sizes.sampled // 10) as home:
        settings = Settings.model_validate(
            {
                **home.settings.model_dump(),
                **_NO_LIMITS,
                "hosts_file": None,
                "suspend_timeout_default": _NEVER_SUSPEND_SECONDS,
            }
        )
        async with app.assemble_platform(settings) as platform, run_in_background(platform.runner.run()):
            yield platform, home.description


async def _create_projects(platform: Platform, count: int) -> list[EndpointId]:
    """Create projects and wait until their computes run."""
    print_note(f"{count} projects")
    key = app.load_operator_key(platform.services.settings)
    transport = httpx2.ASGITransport(app=create_app(platform.services))
    limit = asyncio.Semaphore(_CREATED_AT_ONCE)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://bough/api/v2", headers={"Authorization": f"Bearer {key}"}, timeout=60
    ) as client:

        async def create() -> EndpointId:
            async with limit:
                response = await client.post("/projects", json={"project": {"name": "sampling"}})
                endpoint = EndpointId(response.raise_for_status().json()["endpoints"][0]["id"])
                await _wait_for_address(platform, endpoint)
                return endpoint

        return list(await asyncio.gather(*(create() for _ in range(count))))


@asynccontextmanager
async def _load(platform: Platform, endpoints: Sequence[EndpointId]) -> AsyncIterator[None]:
    """Use the computes once a second, evenly over the second."""
    sessions = {endpoint: await _connect(platform, endpoint) for endpoint in endpoints}

    async def use(number: int, endpoint: EndpointId) -> None:
        await asyncio.sleep(number / len(endpoints))
        while True:
            due = time.monotonic() + 1.0
            await sessions[endpoint].execute("insert into bench values (1); select count(*) from bench")
            platform.services.activity.mark_requested(endpoint)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def use_all() -> None:
        await asyncio.gather(*(use(number, endpoint) for number, endpoint in enumerate(endpoints)))

    async with run_in_background(use_all()):
        yield
    for session in sessions.values():
        await session.close()


async def _connect(platform: Platform, endpoint: EndpointId) -> asyncpg.Connection:
    address = await _wait_for_address(platform, endpoint)
    while True:
        try:
            session = await asyncpg.connect(
                host=address.host, port=address.port, user="neondb_owner", database="neondb", password="", ssl=False
            )
        except asyncpg.PostgresError:  # its role and its database are not created yet
            await asyncio.sleep(0.05)
            continue
        await session.execute("create table if not exists bench (number int)")
        return session


async def _wait_for_address(platform: Platform, endpoint: EndpointId) -> ComputeAddress:
    while True:
        if (address := await platform.engine.find_address(endpoint)) is not None:
            return address
        await asyncio.sleep(0.05)


async def _measure_window(platform: Platform, samples: SamplingSamples, kind: str, seconds: float) -> None:
    loops = [loop for loop in platform.loops if loop.name in _SAMPLING_LOOPS] if kind == WITH else []
    await platform.engine.retain_sessions(())
    for task in (task for loop in loops for task in loop.tasks if isinstance(task, SampleComputes)):
        await task.run()  # opens the sessions that stay open while computes are busy
    postmasters = _list_postmasters(platform)
    before = time.process_time(), sum(read_cpu_seconds(postmasters).values())
    started = time.monotonic()
    await _run_loops(loops, seconds)
    elapsed = time.monotonic() - started
    after = time.process_time(), sum(read_cpu_seconds(postmasters).values())
    computes = (after[1] - before[1]) / elapsed * 100
    samples.computes_cpu[kind].append(computes)
    samples.cpu[kind].append(computes + (after[0] - before[0]) / elapsed * 100)


async def _run_loops(loops: Sequence[Loop], seconds: float) -> None:
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _list_postmasters(platform: Platform) -> list[int]:
    runs = ComputeRuns(Folders(platform.services.settings).runs).list_all()
    return [run.pid for run in runs if run.pid is not None]


def _build_promise(samples: SamplingSamples, sizes: Sizes) -> Promise:
    total = {kind: _percent(f"platform and computes {kind}", values) for kind, values in samples.cpu.items()}
    computes = {kind: _percent(f"computes alone {kind}", values) for kind, values in samples.computes_cpu.items()}
    pairs = zip(samples.cpu[WITH], samples.cpu[WITHOUT], strict=True)
    cost = tuple(on - off for on, off in pairs)
    return Promise(
        name="sampling",
        sentence=f"Sampling {samples.computes} running computes costs at most {LIMIT:g} % of a core.",
        measurements=(
            *total.values(),
            *computes.values(),
            Measurement(name="cost of sampling", unit="% of a core", samples=cost, below=LIMIT),
            Measurement(name="stored per sample of a compute", unit="bytes", samples=tuple(samples.stored_bytes)),
        ),
        ratios=(make_ratio("with sampling, to without", total[WITH], total[WITHOUT]),),
        how=(
            f"{samples.computes} projects with default settings, of which {samples.busy} are busy: a client of each "
            "inserts a row and counts all rows once a second; the others are idle",
            f"CPU time of this process, which runs control's services, and of all processes of the computes, in "
            f"{ROUNDS} windows of {sizes.sampling_seconds} s with the tasks that sample and roll up",
            samples.storage_description,
        ),
        baseline=(f"the same in windows without these tasks, alternating; {project_client.CONFIGURATION}",),
    )


def _percent(name: str, values: Sequence[float]) -> Measurement:
    return Measurement(name=name, unit="% of a core", samples=tuple(values))
