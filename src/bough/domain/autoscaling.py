"""Autoscaling: a compute grows at the first busy sample and shrinks after several quiet ones. Pure.

One CU is one core and 4 GiB of memory. The page cache does not count: it grows to whatever is free, and the kernel
gives it back on demand.
"""

from dataclasses import dataclass

GIB = 1024**3
_CU_BYTES = 4 * GIB

SCALE_UP_THRESHOLD = 0.8  # share of a size; above it, the compute gets a larger size
MIN_STEP = 0.25  # CU, for sizes up to 1; larger sizes are whole numbers
SCALE_DOWN_SAMPLES = 12  # consecutive samples for which a smaller size would have sufficed


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a compute used between two samples."""

    cores: float  # CPU seconds per second
    memory_bytes: int  # without the page cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingState:
    """The size of a compute, and what it needed in the last quiet samples."""

    cu: float
    quiet_samples: int = 0
    peak_required_cu: float = 0.0  # the largest size that one of these samples needed


def memory_bytes_for(cu: float) -> int:
    """At least 1 GiB, because the smallest computes could not build an index with less."""
    return max(GIB, int(cu * _CU_BYTES))


def list_sizes(min_cu: float, max_cu: float) -> tuple[float, ...]:
    """All possible sizes in ascending order, including both limits."""
    steps = [step * MIN_STEP for step in range(1, 4)] + [float(cu) for cu in range(1, int(max_cu) + 1)]
    return (min_cu, *(cu for cu in steps if min_cu < cu < max_cu), *((max_cu,) if max_cu > min_cu else ()))


def clamp_size(cu: float, min_cu: float, max_cu: float) -> float:
    return min(max(cu, min_cu), max_cu)


def next_scaling_state(state: ScalingState, load: Load, min_cu: float, max_cu: float) -> ScalingState:
    """Return the state after one more sample."""
    if min_cu >= max_cu:
        return ScalingState(cu=max_cu)
    current = clamp_size(state.cu, min_cu, max_cu)
    required = required_size(load, min_cu, max_cu)
    if required >= current:
        return ScalingState(cu=required)
    quiet = ScalingState(
        cu=current, quiet_samples=state.quiet_samples + 1, peak_required_cu=max(required, state.peak_required_cu)
    )
    return ScalingState(cu=quiet.peak_required_cu) if quiet.quiet_samples >= SCALE_DOWN_SAMPLES else quiet


def required_size(load: Load, min_cu: float, max_cu: float) -> float:
    """Return the smallest size that the load does not exceed."""
    for cu in list_sizes(min_cu, max_cu):
        if load.cores <= SCALE_UP_THRESHOLD * cu and load.memory_bytes <= SCALE_UP_THRESHOLD * memory_bytes_for(cu):
            return cu
    return max_cu
