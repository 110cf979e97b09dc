"""Many branches of one project: what sleeping and running ones take of the memory, and whether the next comes as fast.

Branches are made by the API, each with an endpoint that has given its first row through the gateway.
Some are suspended then. A compute's memory is the proportional share (Pss) of all its processes, and
control's that of its own; what the machine has less of is seen in MemAvailable. While all others run and nobody uses
them, it is measured what control takes of a processor, and how long another tenant's new project takes.
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
COMPUTE_MB = 15  # of memory, that one more takes
MIN_BRANCHES = 5  # branches, for what each takes of the machine's memory
SLOWER_LIMIT = 1.5  # how many times as long the next branch may take
IDLE_LIMIT = 10.0  # percent of a core that control may take beside all that run and do nothing
NEWCOMER_LIMIT = 1.2  # how many times as long as on an empty platform another tenant's first row may take
CROWDED, EMPTY = "beside all", "on a platform without others"
NO_OTHERS, WITH_SUSPENDED, WITH_RUNNING = (
    "alone",
    "asleep",
    "awake",
)  # moments: before the others, beside some, beside all
_KIND = parent_databases.small_parent()


@dataclass(slots=True)
class CrowdSamples:
    """While a project gets more and more branches, and another, on a platform of its own, has none."""

    crowded_project: BenchProject
    empty_project: BenchProject
    branch_times: Times = field(default_factory=lambda: defaultdict(list))  # moment → milliseconds of one more branch
    baseline_times: Times = field(default_factory=lambda: defaultdict(list))  # the same of the lonely project's
    control_mb: Times = field(default_factory=lambda: defaultdict(list))  # moment → MB
    machine_mb: dict[str, list[float]] = field(default_factory=dict)  # moment → MB that the machine has less, a branch
    compute_mb: list[float] = field(default_factory=list)  # MB of each that runs
    control_cpu: list[float] = field(
        default_factory=list
    )  # percent of a core that control takes, nobody using anything
    new_project_times: Times = field(
        default_factory=lambda: defaultdict(list)
    )  # platform → milliseconds of a new project

    def measure_branches(self, moment: str) -> None:
        for turn in rotate_rounds(
            [(self.crowded_project, self.branch_times), (self.empty_project, self.baseline_times)]
        ):
            for project, times in turn:
                times[moment].append(_one_more(project))
            self.control_mb[moment].append(machine.pss_of(self.crowded_project.platform.control_pid) / 1024**2)

    def measure_control_cpu(self, seconds: int) -> None:
        """After a rest: what follows from the making of branches is done."""
        pid = self.crowded_project.platform.control_pid
        time.sleep(seconds / 4)
        for _ in range(ROUNDS):
            before = machine.cpu_seconds(pid)
            time.sleep(seconds / ROUNDS)
            self.control_cpu.append((machine.cpu_seconds(pid) - before) / (seconds / ROUNDS) * 100)

    def measure_new_projects(self) -> None:
        for turn in rotate_rounds([(CROWDED, self.crowded_project), (EMPTY, self.empty_project)]):
            for name, project in turn:
                self.new_project_times[name].append(project.time_new_project())


def measure(sizes: Sizes) -> Iterator[Promise]:
    count = sizes.sleeping + sizes.running
    storage.check_requirements((DRIVER,), 8 + 0.05 * count)
    _check_memory(sizes.running)
    with ExitStack() as stack:
        seen = CrowdSamples(_project(stack, 8 + count // 10), _project(stack, program.IMAGE_GB))
        seen.measure_branches(NO_OTHERS)
        print_note(f"{sizes.sleeping} branches that sleep")
        seen.machine_mb[WITH_SUSPENDED] = _made(seen.crowded_project, sizes.sleeping, asleep=True)
        seen.measure_branches(WITH_SUSPENDED)
        print_note(f"{sizes.running} branches that run")
        seen.machine_mb[WITH_RUNNING] = _made(seen.crowded_project, sizes.running, asleep=False)
        pids = [pid for pid, _ in seen.crowded_project.platform.list_postmasters().values()]
        seen.compute_mb = [machine.pss_of_tree(pid) / 1024**2 for pid in pids]
        seen.measure_branches(WITH_RUNNING)
        print_note(f"control beside {sizes.running} computes that do nothing, for {sizes.idle_seconds} s")
        seen.measure_control_cpu(sizes.idle_seconds)
        seen.measure_new_projects()
    yield _promise(sizes, seen)


def _check_memory(running: int) -> None:
    available = machine.read_meminfo()["MemAvailable"] / 1024**2
    if available < running * COMPUTE_MB:
        raise RequirementMissing(
            f"{running} computes take {running * COMPUTE_MB} MB of memory, and {available:.0f} are available: "
            "fewer run with --running."
        )


def _project(stack: ExitStack, image_gb: int) -> BenchProject:
    """The only one of its platform."""
    platform = stack.enter_context(program.run_platform(DRIVER, project_client.VARIABLES, image_gb))
    project = BenchProject(platform, stack.enter_context(platform.client()), "crowd")
    asyncio.run(_KIND.fill(project.target))
    _one_more(project)  # without counting: files come into the page cache
    return project


def _made(project: BenchProject, count: int, *, asleep: bool) -> list[float]:
    """What the machine has less for each of them, in MB, while there are more and more."""
    available, less = machine.read_meminfo()["MemAvailable"], []
    for number in range(1, count + 1):
        branch = project.create_branch()
        branch.read_first_row(_KIND.rows)
        if asleep:
            branch.wait_until_finished()
            branch.suspend()
        if number >= min(MIN_BRANCHES, count):
            less.append((available - machine.read_meminfo()["MemAvailable"]) / 1024**2 / number)
    return less


def _one_more(project: BenchProject) -> float:
    """Milliseconds until its first row."""
    began = time.perf_counter()
    branch = project.create_branch()
    branch.read_first_row(_KIND.rows)
    took = (time.perf_counter() - began) * 1e3
    branch.delete()
    return took


def _promise(sizes: Sizes, seen: CrowdSamples) -> Promise:
    beside = {
        NO_OTHERS: "with no other branch",
        WITH_SUSPENDED: f"beside {sizes.sleeping} that sleep",
        WITH_RUNNING: f"beside {sizes.sleeping} that sleep and {sizes.running} that run",
    }
    times = {moment: _figure(f"one more branch, {beside[moment]}", seen.branch_times[moment]) for moment in beside}
    newcomers = {
        name: _figure(f"first row of a new project {name}", seen.new_project_times[name])
        for name in seen.new_project_times
    }
    lonely = {moment: _figure("… and of the other project, in turn", seen.baseline_times[moment]) for moment in beside}
    return Promise(
        name="crowd",
        sentence=f"Beside {sizes.sleeping} sleeping and {sizes.running} running branches of its project, one more "
        f"branch gives its first row in less than {SLOWER_LIMIT:g} times what one of a project without others takes "
        "on a platform of its own; while nobody uses them, "
        f"control takes less than {IDLE_LIMIT:g} % of a core, and another tenant's new project gives its first row in "
        f"less than {NEWCOMER_LIMIT:g} times what it takes on an empty platform.",
        measurements=(
            Measurement(name="memory of each that runs (Pss)", unit="MB", samples=tuple(seen.compute_mb)),
            Measurement(
                name="what the machine has less, each that runs",
                unit="MB",
                samples=tuple(seen.machine_mb[WITH_RUNNING]),
            ),
            Measurement(
                name="what the machine has less, each that sleeps",
                unit="MB",
                samples=tuple(seen.machine_mb[WITH_SUSPENDED]),
            ),
            *(
                Measurement(name=f"memory of control (Pss), {beside[moment]}", unit="MB", samples=tuple(samples))
                for moment, samples in seen.control_mb.items()
            ),
            *(figure for moment in beside for figure in (times[moment], lonely[moment])),
            Measurement(
                name=f"control beside {sizes.running} computes that do nothing",
                unit="% of a core",
                samples=tuple(seen.control_cpu),
                below=IDLE_LIMIT,
            ),
            *newcomers.values(),
        ),
        ratios=(
            make_ratio(
                f"{beside[WITH_SUSPENDED]}, to the first ones",
                times[WITH_SUSPENDED],
                times[NO_OTHERS],
                below=SLOWER_LIMIT,
            ),
            # So many processes make the machine itself slower: for that there is no limit.
            make_ratio(f"{beside[WITH_RUNNING]}, to the first ones", times[WITH_RUNNING], times[NO_OTHERS]),
            *(
                make_ratio(f"{beside[moment]}, to the other project", times[moment], lonely[moment], below=SLOWER_LIMIT)
                for moment in (WITH_SUSPENDED, WITH_RUNNING)
            ),
            make_ratio(
                f"a new project {CROWDED}, to {EMPTY}", newcomers[CROWDED], newcomers[EMPTY], below=NEWCOMER_LIMIT
            ),
        ),
        how=(
            project_client.CONFIGURATION,
            'POST /projects/{id}/branches {"endpoints": [{"type": "read_write"}]}, then at once psycopg: connect with '
            f"the answer's connection_uri, read a row; {ROUNDS} times, each deleted before the next",
            f"control's processor time over {sizes.idle_seconds} s, in {ROUNDS} parts, when nobody asks for anything",
            f"POST /projects, then at once psycopg as above: connect, select; {ROUNDS} times, each deleted afterwards",
            f"one project whose default branch has {_KIND.name} and runs; it counts among those that run",
            seen.crowded_project.platform.storage_home.description,
        ),
        baseline=(
            "the same before the project had any other branch",
            "the same of a project without other branches on a platform of its own, in turn with it",
        ),
    )


def _figure(name: str, samples: list[float]) -> Measurement:
    return Measurement(name=name, unit="ms", samples=tuple(samples))
