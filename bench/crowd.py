"""Many branches of one project: memory of suspended and running branches, and the time to create one more.

The API creates branches, each with an endpoint that has returned a row through the gateway. Some are then suspended.
The memory of a compute is the proportional share (Pss) of its processes; the reduction of free memory is read from
MemAvailable. While all others run idle, the CPU time of control and the time of another tenant's new project are
measured.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import machine, parent_databases, program, project_client, storage
from bench.project_client import BenchProject
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.stopwatch import Times
from bench.storage import RequirementMissing

DRIVER = "reflink"
COMPUTE_MB = 15  # of memory for one more
MIN_BRANCHES = 5  # branches from which on memory per branch is computed
SLOWER_LIMIT = 1.5  # limit for the next branch, to the first
IDLE_LIMIT = 10.0  # limit: percent of a core that control uses with idle computes
NEW_PROJECT_LIMIT = 1.2  # limit for another tenant's first row, to an empty platform
CROWDED, EMPTY = "beside all", "on an empty platform"
# Stages: without other branches, with the suspended ones, with all.
NO_OTHERS, WITH_SUSPENDED, WITH_RUNNING = "alone", "suspended", "running"
_KIND = parent_databases.small_parent()


@dataclass(slots=True)
class CrowdSamples:
    """Samples while one project gets more branches and another, on an empty platform, has none."""

    crowded_project: BenchProject
    empty_project: BenchProject
    branch_times: Times = field(default_factory=lambda: defaultdict(list))  # stage → milliseconds of one more branch
    baseline_times: Times = field(default_factory=lambda: defaultdict(list))  # the same on the empty platform
    control_mb: Times = field(default_factory=lambda: defaultdict(list))  # stage → MB
    machine_mb: dict[str, list[float]] = field(default_factory=dict)  # stage → MB less free memory per branch
    compute_mb: list[float] = field(default_factory=list)  # MB of each running branch
    # Percent of a core that control uses while all computes are idle.
    control_cpu: list[float] = field(default_factory=list)
    # Platform → milliseconds of a new project.
    new_project_times: Times = field(default_factory=lambda: defaultdict(list))

    def measure_branches(self, stage: str) -> None:
        for ordered in rotate_rounds(
            [(self.crowded_project, self.branch_times), (self.empty_project, self.baseline_times)]
        ):
            for project, times in ordered:
                times[stage].append(_time_new_branch(project))
            self.control_mb[stage].append(machine.pss_of(self.crowded_project.platform.control_pid) / 1024**2)

    def measure_control_cpu(self, seconds: int) -> None:
        """Measure after a pause, when the work that follows the creation of branches is done."""
        pid = self.crowded_project.platform.control_pid
        time.sleep(seconds / 4)
        for _ in range(ROUNDS):
            before = machine.cpu_seconds(pid)
            time.sleep(seconds / ROUNDS)
            self.control_cpu.append((machine.cpu_seconds(pid) - before) / (seconds / ROUNDS) * 100)

    def measure_new_projects(self) -> None:
        for ordered in rotate_rounds([(CROWDED, self.crowded_project), (EMPTY, self.empty_project)]):
            for name, project in ordered:
                self.new_project_times[name].append(project.time_new_project())


def measure(sizes: Sizes) -> Iterator[Promise]:
    count = sizes.suspended + sizes.running
    storage.check_requirements((DRIVER,), 8 + 0.05 * count)
    _check_memory(sizes.running)
    with ExitStack() as stack:
        samples = CrowdSamples(_project(stack, 8 + count // 10), _project(stack, program.IMAGE_GB))
        samples.measure_branches(NO_OTHERS)
        print_note(f"{sizes.suspended} suspended branches")
        samples.machine_mb[WITH_SUSPENDED] = _create_branches(samples.crowded_project, sizes.suspended, suspended=True)
        samples.measure_branches(WITH_SUSPENDED)
        print_note(f"{sizes.running} running branches")
        samples.machine_mb[WITH_RUNNING] = _create_branches(samples.crowded_project, sizes.running, suspended=False)
        pids = [pid for pid, _ in samples.crowded_project.platform.list_postmasters().values()]
        samples.compute_mb = [machine.pss_of_tree(pid) / 1024**2 for pid in pids]
        samples.measure_branches(WITH_RUNNING)
        print_note(f"control with {sizes.running} idle computes, for {sizes.idle_seconds} s")
        samples.measure_control_cpu(sizes.idle_seconds)
        samples.measure_new_projects()
    yield _build_promise(sizes, samples)


def _check_memory(running: int) -> None:
    available = machine.read_meminfo()["MemAvailable"] / 1024**2
    if available < running * COMPUTE_MB:
        raise RequirementMissing(
            f"{running} computes need {running * COMPUTE_MB} MB of memory, but {available:.0f} are available: "
            "use --running with a smaller number."
        )


def _project(stack: ExitStack, image_gb: int) -> BenchProject:
    """Create the only project of a platform."""
    platform = stack.enter_context(program.run_platform(DRIVER, project_client.VARIABLES, image_gb))
    project = BenchProject(platform, stack.enter_context(platform.client()), "crowd")
    asyncio.run(_KIND.fill(project.target))
    _time_new_branch(project)  # not counted: loads files into the page cache
    return project


def _create_branches(project: BenchProject, count: int, *, suspended: bool) -> list[float]:
    """Create branches; return the reduction of free memory per branch in MB."""
    available, reductions = machine.read_meminfo()["MemAvailable"], []
    for number in range(1, count + 1):
        branch = project.create_branch()
        branch.read_first_row(_KIND.rows)
        if suspended:
            branch.wait_until_finished()
            branch.suspend()
        if number >= min(MIN_BRANCHES, count):
            reductions.append((available - machine.read_meminfo()["MemAvailable"]) / 1024**2 / number)
    return reductions


def _time_new_branch(project: BenchProject) -> float:
    """Return milliseconds until the first row."""
    started_at = time.perf_counter()
    branch = project.create_branch()
    branch.read_first_row(_KIND.rows)
    duration = (time.perf_counter() - started_at) * 1e3
    branch.delete()
    return duration


def _build_promise(sizes: Sizes, samples: CrowdSamples) -> Promise:
    stages = {
        NO_OTHERS: "with no other branch",
        WITH_SUSPENDED: f"beside {sizes.suspended} suspended",
        WITH_RUNNING: f"beside {sizes.suspended} suspended and {sizes.running} running",
    }
    times = {stage: _figure(f"one more branch, {stages[stage]}", samples.branch_times[stage]) for stage in stages}
    first_rows = {
        name: _figure(f"first row of a new project {name}", samples.new_project_times[name])
        for name in samples.new_project_times
    }
    on_empty = {
        stage: _figure("… and of the project on the empty platform, alternating", samples.baseline_times[stage])
        for stage in stages
    }
    return Promise(
        name="crowd",
        sentence=f"With {sizes.suspended} suspended and {sizes.running} running other branches of its project, one "
        f"more branch returns its first row in less than {SLOWER_LIMIT:g} times the time of a project without others "
        "on an empty platform; while they are idle, "
        f"control uses less than {IDLE_LIMIT:g} % of a core, and another tenant's new project returns its first row in "
        f"less than {NEW_PROJECT_LIMIT:g} times the time on an empty platform.",
        measurements=(
            Measurement(name="memory of each running branch (Pss)", unit="MB", samples=tuple(samples.compute_mb)),
            Measurement(
                name="reduction of free memory per running branch",
                unit="MB",
                samples=tuple(samples.machine_mb[WITH_RUNNING]),
            ),
            Measurement(
                name="reduction of free memory per suspended branch",
                unit="MB",
                samples=tuple(samples.machine_mb[WITH_SUSPENDED]),
            ),
            *(
                Measurement(name=f"memory of control (Pss), {stages[stage]}", unit="MB", samples=tuple(values))
                for stage, values in samples.control_mb.items()
            ),
            *(figure for stage in stages for figure in (times[stage], on_empty[stage])),
            Measurement(
                name=f"control beside {sizes.running} idle computes",
                unit="% of a core",
                samples=tuple(samples.control_cpu),
                below=IDLE_LIMIT,
            ),
            *first_rows.values(),
        ),
        ratios=(
            make_ratio(
                f"{stages[WITH_SUSPENDED]}, to the first ones",
                times[WITH_SUSPENDED],
                times[NO_OTHERS],
                below=SLOWER_LIMIT,
            ),
            # So many processes slow the machine itself down; there is no limit for that.
            make_ratio(f"{stages[WITH_RUNNING]}, to the first ones", times[WITH_RUNNING], times[NO_OTHERS]),
            *(
                make_ratio(f"{stages[stage]}, to the empty platform", times[stage], on_empty[stage], below=SLOWER_LIMIT)
                for stage in (WITH_SUSPENDED, WITH_RUNNING)
            ),
            make_ratio(
                f"a new project {CROWDED}, to {EMPTY}", first_rows[CROWDED], first_rows[EMPTY], below=NEW_PROJECT_LIMIT
            ),
        ),
        how=(
            project_client.CONFIGURATION,
            'POST /projects/{id}/branches {"endpoints": [{"type": "read_write"}]}, then immediately psycopg: connect '
            f"with the returned connection_uri, read a row; {ROUNDS} times, each deleted before the next",
            f"CPU time of control over {sizes.idle_seconds} s, in {ROUNDS} parts, without requests",
            f"POST /projects, then immediately psycopg: connect, select; {ROUNDS} times, each deleted afterwards",
            f"one project whose default branch has {_KIND.name} and is running; it counts as running",
            samples.crowded_project.platform.storage_home.description,
        ),
        baseline=(
            "the same before the project had any other branch",
            "the same for a project without other branches on an empty platform, alternating",
        ),
    )


def _figure(name: str, samples: list[float]) -> Measurement:
    return Measurement(name=name, unit="ms", samples=tuple(samples))
