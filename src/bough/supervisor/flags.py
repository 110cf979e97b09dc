"""Command-line flags that the supervisor passes on to the processes it starts."""

from collections.abc import Iterator, Mapping
from typing import Any

Flags = Mapping[str, Any]  # setting → value; None when the flag was not given


def to_arguments(flags: Flags) -> Iterator[str]:
    """Return the flags as command-line arguments of another process of this program."""
    for name, value in flags.items():
        if value is not None:
            yield f"--{name.replace('_', '-')}"
            yield str(value)
