"""`python -m bench [--small] [NAME …]`: measures promises, prints a table for each and records the results.

A full-size run writes `bench/results/*.json` and updates the sections of its promises in `bench/RESULTS.md`.
The exit status is 1 if a promise was broken and 2 if one could not be measured. Ctrl-C and SIGTERM stop the run and
remove everything that it created.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from bench import (
    api_reads,
    archiving,
    branching,
    clone_size,
    consumption,
    crowd,
    density,
    first_query,
    gateway,
    instant,
    login_checks,
    machine,
    pooling,
    postgres_builds,
    replica,
    report,
    restart,
    restoring,
    results_page,
    sampling,
    secret_checks,
    statements,
    throughput,
    wake,
)
from bench.promise import Promise, Verdict
from bench.sizes import FULL, SMALL, Sizes
from bench.storage import RequirementMissing

PROMISES: dict[str, Callable[[Sizes], Iterator[Promise]]] = {
    "first_query": first_query.measure,
    "restart": lambda _: iter((restart.measure(),)),
    "api_reads": lambda _: iter((api_reads.measure(),)),
    "consumption": lambda _: iter((consumption.measure(),)),
    "secret_checks": secret_checks.measure,
    "login_checks": login_checks.measure,
    "clone_size": clone_size.measure,
    "density": density.measure,
    "throughput": throughput.measure,
    "postgres_builds": postgres_builds.measure,
    "branching": branching.measure,
    "archiving": archiving.measure,
    "statements": statements.measure,
    "restoring": restoring.measure,
    "replica": replica.measure,
    "crowd": crowd.measure,
    "sampling": sampling.measure,
    "gateway": gateway.measure,
    "pooling": pooling.measure,
    "wake": wake.measure,
    "instant": instant.measure,
}


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _parse_options()
    console, notes = _console(), Console(stderr=True)
    about = machine.describe_machine()
    promises: list[Promise] = []
    sizes = SMALL if options.small else FULL
    sizes = replace(sizes, running=options.running) if options.running else sizes
    sizes = replace(sizes, sampled=options.sampled) if options.sampled else sizes
    complete = [_measure(name, sizes, promises, (console, notes)) for name in options.names]
    if sizes == FULL:
        now = datetime.now(UTC)
        json_file = report.write_json(promises, about, now)
        console.print(f"\nWrote {json_file} and {results_page.update(promises, about, now)}")
    if not all(complete):
        return 2
    return 1 if any(promise.verdict is Verdict.BROKEN for promise in promises) else 0


def _measure(name: str, sizes: Sizes, promises: list[Promise], consoles: tuple[Console, Console]) -> bool:
    """Append the promises of one bench. Return False after a failure; the caller continues with the next bench."""
    console, notes = consoles
    started = time.monotonic()
    notes.print(f"Measuring {name} …", style="dim")
    try:
        for promise in PROMISES[name](sizes):
            report.show(promise, console)
            promises.append(promise)
    except RequirementMissing as error:
        notes.print(f"{name} cannot be measured: {error}", style="bold red", highlight=False)
        return False
    except Exception:
        notes.print_exception()
        return False
    notes.print(f"{name} took {time.monotonic() - started:.0f} s.", style="dim")
    return True


def _console() -> Console:
    """Return a console as wide as the terminal, or with 140 columns if the output is not a terminal."""
    return Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=140)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the promises of Bough.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(PROMISES)}; default: all")
    parser.add_argument(
        "--small",
        action="store_true",
        help="use small databases and few computes to check that the bench works; writes no results",
    )
    parser.add_argument(
        "--running",
        type=int,
        metavar="N",
        help=f"number of running computes in crowd (default: {FULL.running}); writes no results",
    )
    parser.add_argument(
        "--sampled",
        type=int,
        metavar="N",
        help=f"number of running computes in sampling (default: {FULL.sampled}); writes no results",
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in PROMISES:
            parser.error(f"unknown promise {name!r}; choose from {', '.join(PROMISES)}")
    options.names = options.names or list(PROMISES)
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted; no results were written.")
