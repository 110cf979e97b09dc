"""How large a compute is between its two limits: up at the first busy look, down when it was quiet for a while. Pure.

One CU stands for a core and 4 GiB of memory. What the kernel keeps of files for a compute does not count: it
fills whatever there is, and is given back when somebody needs it.
"""

from dataclasses import dataclass

GIB = 1024**3
_CU_BYTES = 4 * GIB

FULL = 0.8  # of a size: over it a larger one is taken
SMALLEST_STEP = 0.25  # up to one CU; from there on whole ones
QUIET_LOOKS = 12  # in a row, each of which a smaller size would have done for


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a compute took between two looks."""

    cores: float  # seconds of processor time a second
    memory_bytes: int  # without what the kernel keeps of files


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """A compute's size, and what it needed at looks that were quieter."""

    cu: float
    quiet_looks: int = 0
    needed: float = 0.0  # the largest size that one of them needed


def memory_of(cu: float) -> int:
    """With less than 1 GiB the smallest computes could not build an index."""
    return max(GIB, int(cu * _CU_BYTES))


def sizes(least: float, most: float) -> tuple[float, ...]:
    """All that a compute may have, from small to large; both limits are among them."""
    steps = [step * SMALLEST_STEP for step in range(1, 4)] + [float(cu) for cu in range(1, int(most) + 1)]
    return (least, *(cu for cu in steps if least < cu < most), *((most,) if most > least else ()))


def within(cu: float, least: float, most: float) -> float:
    return min(max(cu, least), most)


def scaled(now: Sizing, load: Load, least: float, most: float) -> Sizing:
    """What it shall be after a look; the same size when there is no reason for another."""
    if least >= most:
        return Sizing(cu=most)
    current = within(now.cu, least, most)
    need = needed(load, least, most)
    if need >= current:
        return Sizing(cu=need)
    quieter = Sizing(cu=current, quiet_looks=now.quiet_looks + 1, needed=max(need, now.needed))
    return Sizing(cu=quieter.needed) if quieter.quiet_looks >= QUIET_LOOKS else quieter


def needed(load: Load, least: float, most: float) -> float:
    """The smallest size that the load does not fill."""
    for cu in sizes(least, most):
        if load.cores <= FULL * cu and load.memory_bytes <= FULL * memory_of(cu):
            return cu
    return most
