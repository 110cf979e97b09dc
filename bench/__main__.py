"""`python -m bench [NAME …]`: measure the promises, show a table each, write them as JSON.

Ends with 1 when a promise was broken, with 2 when one could not be measured.
"""

import argparse
import sys
import time

from rich.console import Console

from bench import api_reads, first_query, machine, report, restart
from bench.promise import Promise, Verdict

PROMISES = {"first_query": first_query.measure, "restart": restart.measure, "api_reads": api_reads.measure}


def main() -> int:
    names = _asked()
    console, notes = _console(), Console(stderr=True)
    about = machine.description()
    promises = [promise for name in names if (promise := _measured(name, console, notes))]
    console.print(f"\nWritten to {report.write(promises, about)}")
    if len(promises) < len(names):
        return 2
    return 1 if any(promise.verdict is Verdict.BROKEN for promise in promises) else 0


def _measured(name: str, console: Console, notes: Console) -> Promise | None:
    """None when something went wrong; the others are measured all the same."""
    began = time.monotonic()
    notes.print(f"Measuring {name} …", style="dim")
    try:
        promise = PROMISES[name]()
    except Exception:
        notes.print_exception()
        return None
    report.show(promise, console)
    notes.print(f"{name} took {time.monotonic() - began:.0f} s.", style="dim")
    return promise


def _console() -> Console:
    """As wide as the terminal; wide enough for whole lines where there is none."""
    return Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=140)


def _asked() -> list[str]:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Bough promises.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(PROMISES)}; all when none is given"
    )
    names: list[str] = parser.parse_args().names
    for name in names:
        if name not in PROMISES:
            parser.error(f"there is no promise {name!r}; there are {', '.join(PROMISES)}")
    return names or list(PROMISES)


if __name__ == "__main__":
    sys.exit(main())
