"""The names that Debian and the dynamic linker use for the architecture of this machine."""

import platform
from dataclasses import dataclass

from bough.engine.port import EngineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    name: str  # in Debian's indexes
    triplet: str  # folder of shared libraries below /usr/lib
    dynamic_linker: str  # file name


_ARCHITECTURES = {
    "x86_64": Architecture(name="amd64", triplet="x86_64-linux-gnu", dynamic_linker="ld-linux-x86-64.so.2"),
    "aarch64": Architecture(name="arm64", triplet="aarch64-linux-gnu", dynamic_linker="ld-linux-aarch64.so.1"),
}


def find_architecture(machine: str | None = None) -> Architecture:
    """Return the architecture of a machine as `uname -m` names it; of this machine by default."""
    machine = platform.machine() if machine is None else machine
    architecture = _ARCHITECTURES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine))
    if architecture is None:
        raise EngineError(f"Debian's packages are not used on this machine ({machine}).", transient=False)
    return architecture
