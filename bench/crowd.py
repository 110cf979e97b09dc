"""Many branches of one project: what sleeping and running ones take of the memory, and whether the next comes as fast.

Branches are made by the API, each with an endpoint that has given its first row through the gateway.
Some are suspended then. A compute's memory is the proportional share (Pss) of all its processes, and
control's that of its own; what the machine has less of is seen in MemAvailable.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import machine, parents, places, program, projects
from bench.projects import Project
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bench.stopwatch import Times

DRIVER = "reflink"
FEWEST = 5  # branches, for what each takes of the machine's memory
SLOWER_LIMIT = 1.5  # how many times as long the next branch may take
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

    def look(self, moment: str) -> None:
        for turn in turns([(self.crowded, self.times), (self.lonely, self.beside)]):
            for project, times in turn:
                times[moment].append(_one_more(project))
            self.control[moment].append(machine.share_of(self.crowded.platform.control_pid) / 1024**2)


def measure(sizes: Sizes) -> Iterator[Promise]:
    count = sizes.sleeping + sizes.running
    places.check((DRIVER,), 8 + 0.05 * count)
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
    yield _promise(sizes, seen)


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
    lonely = {moment: _figure("… and of the other project, in turn", seen.beside[moment]) for moment in beside}
    return Promise(
        name="crowd",
        sentence=f"Beside {sizes.sleeping} sleeping and {sizes.running} running branches of its project, one more "
        f"branch gives its first row in less than {SLOWER_LIMIT:g} times what the first took.",
        figures=(
            Figure(name="memory of each that runs (Pss)", unit="MB", samples=tuple(seen.shares)),
            Figure(name="what the machine has less, each that runs", unit="MB", samples=tuple(seen.less[AWAKE])),
            Figure(name="what the machine has less, each that sleeps", unit="MB", samples=tuple(seen.less[ASLEEP])),
            *(
                Figure(name=f"memory of control (Pss), {beside[moment]}", unit="MB", samples=tuple(samples))
                for moment, samples in seen.control.items()
            ),
            *(figure for moment in beside for figure in (times[moment], lonely[moment])),
        ),
        ratios=(
            *(
                ratio(f"{beside[moment]}, to the first ones", times[moment], times[ALONE], below=SLOWER_LIMIT)
                for moment in (ASLEEP, AWAKE)
            ),
            *(
                ratio(f"{beside[moment]}, to the other project", times[moment], lonely[moment], below=SLOWER_LIMIT)
                for moment in (ASLEEP, AWAKE)
            ),
        ),
        how=(
            projects.CONFIGURATION,
            'POST /projects/{id}/branches {"endpoints": [{"type": "read_write"}]}, then at once psycopg: connect with '
            f"the answer's connection_uri, read a row; {ROUNDS} times, each deleted before the next",
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
