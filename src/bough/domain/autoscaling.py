"""How large a compute is between its two limits: up at the first busy look, down when it was quiet for a while. Pure.

One CU stands for a core and 4 GiB of memory. What the kernel keeps of files for a compute does not count: it
fills whatever there is, and is given back when somebody needs it.
"""

from dataclasses import dataclass

GIB = 1024**3
_CU_BYTES = 4 * GIB

SCALE_UP_THRESHOLD = 0.8  # of a size: over it a larger one is taken
MIN_STEP = 0.25  # up to one CU; from there on whole ones
SCALE_DOWN_SAMPLES = 12  # in a row, each of which a smaller size would have done for


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a compute took between two looks."""

    cores: float  # seconds of processor time a second
    memory_bytes: int  # without what the kernel keeps of files


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingState:
    """A compute's size, and what it needed at looks that were quieter."""

    cu: float
    quiet_samples: int = 0
    peak_required_cu: float = 0.0  # the largest size that one of them needed


def memory_bytes_for(cu: float) -> int:
    """With less than 1 GiB the smallest computes could not build an index."""
    return max(GIB, int(cu * _CU_BYTES))


def list_sizes(min_cu: float, max_cu: float) -> tuple[float, ...]:
    """All that a compute may have, from small to large; both limits are among them."""
    steps = [step * MIN_STEP for step in range(1, 4)] + [float(cu) for cu in range(1, int(max_cu) + 1)]
    return (min_cu, *(cu for cu in steps if min_cu < cu < max_cu), *((max_cu,) if max_cu > min_cu else ()))


def clamp_size(cu: float, min_cu: float, max_cu: float) -> float:
    return min(max(cu, min_cu), max_cu)


def next_scaling_state(state: ScalingState, load: Load, min_cu: float, max_cu: float) -> ScalingState:
    """What it shall be after a look; the same size when there is no reason for another."""
    if min_cu >= max_cu:
        return ScalingState(cu=max_cu)
    current = clamp_size(state.cu, min_cu, max_cu)
    need = required_size(load, min_cu, max_cu)
    if need >= current:
        return ScalingState(cu=need)
    quieter = ScalingState(
        cu=current, quiet_samples=state.quiet_samples + 1, peak_required_cu=max(need, state.peak_required_cu)
    )
    return ScalingState(cu=quieter.peak_required_cu) if quieter.quiet_samples >= SCALE_DOWN_SAMPLES else quieter


def required_size(load: Load, min_cu: float, max_cu: float) -> float:
    """The smallest size that the load does not fill."""
    for cu in list_sizes(min_cu, max_cu):
        if load.cores <= SCALE_UP_THRESHOLD * cu and load.memory_bytes <= SCALE_UP_THRESHOLD * memory_bytes_for(cu):
            return cu
    return max_cu
