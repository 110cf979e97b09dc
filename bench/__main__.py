"""`python -m bench [--small] [NAME …]`: measure the promises, show a table each, write them as JSON.

Ends with 1 when a promise was broken, with 2 when one could not be measured. Ctrl-C and SIGTERM end it
at any time, and nothing is left of what it made.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Console

from bench import (
    api_reads,
    archiving,
    branching,
    clone_size,
    crowd,
    density,
    first_query,
    gateway,
    instant,
    login_checks,
    machine,
    pooling,
    replica,
    report,
    restart,
    restoring,
    secret_checks,
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
    "secret_checks": secret_checks.measure,
    "login_checks": login_checks.measure,
    "clone_size": clone_size.measure,
    "density": density.measure,
    "throughput": throughput.measure,
    "branching": branching.measure,
    "archiving": archiving.measure,
    "restoring": restoring.measure,
    "replica": replica.measure,
    "crowd": crowd.measure,
    "gateway": gateway.measure,
    "pooling": pooling.measure,
    "wake": wake.measure,
    "instant": instant.measure,
}


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    asked = _asked()
    console, notes = _console(), Console(stderr=True)
    about = machine.describe_machine()
    promises: list[Promise] = []
    sizes = SMALL if asked.small else FULL
    sizes = replace(sizes, running=asked.running) if asked.running else sizes
    whole = [_measured(name, sizes, promises, (console, notes)) for name in asked.names]
    if sizes == FULL:
        console.print(f"\nWritten to {report.write(promises, about)}")
    if not all(whole):
        return 2
    return 1 if any(promise.verdict is Verdict.BROKEN for promise in promises) else 0


def _measured(name: str, sizes: Sizes, promises: list[Promise], to: tuple[Console, Console]) -> bool:
    """False when something went wrong; the others are measured all the same."""
    console, notes = to
    began = time.monotonic()
    notes.print(f"Measuring {name} …", style="dim")
    try:
        for promise in PROMISES[name](sizes):
            report.show(promise, console)
            promises.append(promise)
    except RequirementMissing as lack:
        notes.print(f"{name} cannot be measured: {lack}", style="bold red", highlight=False)
        return False
    except Exception:
        notes.print_exception()
        return False
    notes.print(f"{name} took {time.monotonic() - began:.0f} s.", style="dim")
    return True


def _console() -> Console:
    """As wide as the terminal; wide enough for whole lines where there is none."""
    return Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=140)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Bough promises.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(PROMISES)}; all when none is given"
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="small databases and few computes, to see that it works; nothing is written",
    )
    parser.add_argument(
        "--running",
        type=int,
        metavar="N",
        help=f"so many running computes in crowd, instead of {FULL.running}; nothing is written",
    )
    asked = parser.parse_args()
    for name in asked.names:
        if name not in PROMISES:
            parser.error(f"there is no promise {name!r}; there are {', '.join(PROMISES)}")
    asked.names = asked.names or list(PROMISES)
    return asked


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted; nothing was written.")
