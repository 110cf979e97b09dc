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

from bench import machine, parents, places, program, projects
from bench.places import NotHere
from bench.projects import Project
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bench.stopwatch import Times

DRIVER = "reflink"
COMPUTE_MB = 15  # of memory, that one more takes
FEWEST = 5  # branches, for what each takes of the machine's memory
SLOWER_LIMIT = 1.5  # how many times as long the next branch may take
IDLE_LIMIT = 10.0  # percent of a core that control may take beside all that run and do nothing
NEWCOMER_LIMIT = 1.2  # how many times as long as on an empty platform another tenant's first row may take
CROWDED, EMPTY = "beside all", "on a platform without others"
ALONE, ASLEEP, AWAKE = "alone", "asleep", "awake"  # moments: before the others, beside some, beside all
_KIND = parents.small()


@dataclass(slots=True)
class Seen:
    """While a project gets more and more branches, and another, on a platform of its own, has none."""

    crowded: Project
    lonely: Project
    times: Times = field(default_factory=lambda: defaultdict(list))  # moment → milliseconds of one more branch
    beside: Times = field(default_factory=lambda: defaultdict(list))  # the same of the lonely project's
    control: Times = field(default_factory=lambda: defaultdict(list))  # moment → MB
    less: dict[str, list[float]] = field(default_factory=dict)  # moment → MB that the machine has less, a branch
    shares: list[float] = field(default_factory=list)  # MB of each that runs
    idle: list[float] = field(default_factory=list)  # percent of a core that control takes, nobody using anything
    newcomers: Times = field(default_factory=lambda: defaultdict(list))  # platform → milliseconds of a new project

    def look(self, moment: str) -> None:
        for turn in turns([(self.crowded, self.times), (self.lonely, self.beside)]):
            for project, times in turn:
                times[moment].append(_one_more(project))
            self.control[moment].append(machine.share_of(self.crowded.platform.control_pid) / 1024**2)

    def look_at_upkeep(self, seconds: int) -> None:
        """After a rest: what follows from the making of branches is done."""
        pid = self.crowded.platform.control_pid
        time.sleep(seconds / 4)
        for _ in range(ROUNDS):
            before = machine.cpu_seconds(pid)
            time.sleep(seconds / ROUNDS)
            self.idle.append((machine.cpu_seconds(pid) - before) / (seconds / ROUNDS) * 100)

    def look_at_newcomers(self) -> None:
        for turn in turns([(CROWDED, self.crowded), (EMPTY, self.lonely)]):
            for name, project in turn:
                self.newcomers[name].append(project.first_row_of_another())


def measure(sizes: Sizes) -> Iterator[Promise]:
    count = sizes.sleeping + sizes.running
    places.check((DRIVER,), 8 + 0.05 * count)
    _check_memory(sizes.running)
    with ExitStack() as stack:
        seen = Seen(_project(stack, 8 + count // 10), _project(stack, program.IMAGE_GB))
        seen.look(ALONE)
        note(f"{sizes.sleeping} branches that sleep")
        seen.less[ASLEEP] = _made(seen.crowded, sizes.sleeping, asleep=True)
        seen.look(ASLEEP)
        note(f"{sizes.running} branches that run")
        seen.less[AWAKE] = _made(seen.crowded, sizes.running, asleep=False)
        pids = [pid for pid, _ in seen.crowded.platform.postmasters().values()]
        seen.shares = [machine.memory_of(pid) / 1024**2 for pid in pids]
        seen.look(AWAKE)
        note(f"control beside {sizes.running} computes that do nothing, for {sizes.idle_seconds} s")
        seen.look_at_upkeep(sizes.idle_seconds)
        seen.look_at_newcomers()
    yield _promise(sizes, seen)


def _check_memory(running: int) -> None:
    available = machine.memory()["MemAvailable"] / 1024**2
    if available < running * COMPUTE_MB:
        raise NotHere(
            f"{running} computes take {running * COMPUTE_MB} MB of memory, and {available:.0f} are available: "
            "fewer run with --running."
        )


def _project(stack: ExitStack, image_gb: int) -> Project:
    """The only one of its platform."""
    platform = stack.enter_context(program.running(DRIVER, projects.VARIABLES, image_gb))
    project = Project(platform, stack.enter_context(platform.client()), "crowd")
    asyncio.run(_KIND.fill(project.target))
    _one_more(project)  # without counting: files come into the page cache
    return project


def _made(project: Project, count: int, *, asleep: bool) -> list[float]:
    """What the machine has less for each of them, in MB, while there are more and more."""
    available, less = machine.memory()["MemAvailable"], []
    for number in range(1, count + 1):
        branch = project.branch()
        branch.first_row(_KIND.rows)
        if asleep:
            branch.until_done()
            branch.suspend()
        if number >= min(FEWEST, count):
            less.append((available - machine.memory()["MemAvailable"]) / 1024**2 / number)
    return less


def _one_more(project: Project) -> float:
    """Milliseconds until its first row."""
    began = time.perf_counter()
    branch = project.branch()
    branch.first_row(_KIND.rows)
    took = (time.perf_counter() - began) * 1e3
    branch.delete()
    return took


def _promise(sizes: Sizes, seen: Seen) -> Promise:
    beside = {
        ALONE: "with no other branch",
        ASLEEP: f"beside {sizes.sleeping} that sleep",
        AWAKE: f"beside {sizes.sleeping} that sleep and {sizes.running} that run",
    }
    times = {moment: _figure(f"one more branch, {beside[moment]}", seen.times[moment]) for moment in beside}
    newcomers = {name: _figure(f"first row of a new project {name}", seen.newcomers[name]) for name in seen.newcomers}
    lonely = {moment: _figure("… and of the other project, in turn", seen.beside[moment]) for moment in beside}
    return Promise(
        name="crowd",
        sentence=f"Beside {sizes.sleeping} sleeping and {sizes.running} running branches of its project, one more "
        f"branch gives its first row in less than {SLOWER_LIMIT:g} times what one of a project without others takes "
        "on a platform of its own; while nobody uses them, "
        f"control takes less than {IDLE_LIMIT:g} % of a core, and another tenant's new project gives its first row in "
        f"less than {NEWCOMER_LIMIT:g} times what it takes on an empty platform.",
        figures=(
            Figure(name="memory of each that runs (Pss)", unit="MB", samples=tuple(seen.shares)),
            Figure(name="what the machine has less, each that runs", unit="MB", samples=tuple(seen.less[AWAKE])),
            Figure(name="what the machine has less, each that sleeps", unit="MB", samples=tuple(seen.less[ASLEEP])),
            *(
                Figure(name=f"memory of control (Pss), {beside[moment]}", unit="MB", samples=tuple(samples))
                for moment, samples in seen.control.items()
            ),
            *(figure for moment in beside for figure in (times[moment], lonely[moment])),
            Figure(
                name=f"control beside {sizes.running} computes that do nothing",
                unit="% of a core",
                samples=tuple(seen.idle),
                below=IDLE_LIMIT,
            ),
            *newcomers.values(),
        ),
        ratios=(
            ratio(f"{beside[ASLEEP]}, to the first ones", times[ASLEEP], times[ALONE], below=SLOWER_LIMIT),
            # So many processes make the machine itself slower: for that there is no limit.
            ratio(f"{beside[AWAKE]}, to the first ones", times[AWAKE], times[ALONE]),
            *(
                ratio(f"{beside[moment]}, to the other project", times[moment], lonely[moment], below=SLOWER_LIMIT)
                for moment in (ASLEEP, AWAKE)
            ),
            ratio(f"a new project {CROWDED}, to {EMPTY}", newcomers[CROWDED], newcomers[EMPTY], below=NEWCOMER_LIMIT),
        ),
        how=(
            projects.CONFIGURATION,
            'POST /projects/{id}/branches {"endpoints": [{"type": "read_write"}]}, then at once psycopg: connect with '
            f"the answer's connection_uri, read a row; {ROUNDS} times, each deleted before the next",
            f"control's processor time over {sizes.idle_seconds} s, in {ROUNDS} parts, when nobody asks for anything",
            f"POST /projects, then at once psycopg as above: connect, select; {ROUNDS} times, each deleted afterwards",
            f"one project whose default branch has {_KIND.name} and runs; it counts among those that run",
            seen.crowded.platform.place.description,
        ),
        baseline=(
            "the same before the project had any other branch",
            "the same of a project without other branches on a platform of its own, in turn with it",
        ),
    )


def _figure(name: str, samples: list[float]) -> Figure:
    return Figure(name=name, unit="ms", samples=tuple(samples))
