"""Autoscaling: up at once, down slowly, always within the limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain.autoscaling import (
    GIB,
    SCALE_DOWN_SAMPLES,
    Load,
    ScalingState,
    list_sizes,
    memory_bytes_for,
    next_scaling_state,
    required_size,
)

BUSY = Load(cores=1.4, memory_bytes=0)
QUIET = Load(cores=0.01, memory_bytes=0)


def after(samples: list[Load], start: ScalingState, min_cu: float = 0.25, max_cu: float = 4) -> ScalingState:
    for load in samples:
        start = next_scaling_state(start, load, min_cu, max_cu)
    return start


@pytest.mark.parametrize(
    ("min_cu", "max_cu", "expected"),
    [
        (0.25, 2, (0.25, 0.5, 0.75, 1, 2)),
        (0.5, 0.75, (0.5, 0.75)),
        (1, 1, (1,)),
        (0.25, 0.25, (0.25,)),
        (2, 5, (2, 3, 4, 5)),
        (0.25, 1.5, (0.25, 0.5, 0.75, 1, 1.5)),
        (0.3, 3.5, (0.3, 0.5, 0.75, 1, 2, 3, 3.5)),
    ],
)
def test_sizes_are_quarters_up_to_one_and_then_whole(min_cu: float, max_cu: float, expected: tuple[float, ...]) -> None:
    assert list_sizes(min_cu, max_cu) == expected


@pytest.mark.parametrize(
    ("cores", "memory", "size"),
    [
        (0, 0, 0.25),
        (0.2, 0, 0.25),
        (0.21, 0, 0.5),
        (0.8, 0, 1),
        (1.0, 0, 2),
        (1.7, 0, 3),
        (99, 0, 4),
        (0, 0.8 * GIB, 0.25),
        (0, 0.9 * GIB, 0.5),
        (0, 3.3 * GIB, 2),
        (0.5, 7 * GIB, 3),
        (0, 99 * GIB, 4),
    ],
)
def test_the_smallest_size_that_is_not_filled(cores: float, memory: float, size: float) -> None:
    assert required_size(Load(cores=cores, memory_bytes=int(memory)), 0.25, 4) == size


def test_one_busy_look_is_enough_to_grow() -> None:
    assert after([BUSY], ScalingState(cu=0.25)) == ScalingState(cu=2)
    assert after([Load(cores=0, memory_bytes=6 * GIB)], ScalingState(cu=0.25)) == ScalingState(cu=2)


def test_it_shrinks_only_after_a_row_of_quiet_looks() -> None:
    almost = after([QUIET] * (SCALE_DOWN_SAMPLES - 1), ScalingState(cu=4))
    assert almost.cu == 4
    assert after([QUIET], almost) == ScalingState(cu=0.25)
    assert after([Load(cores=3, memory_bytes=0), QUIET], almost) == ScalingState(
        cu=4, quiet_samples=1, peak_required_cu=0.25
    )


def test_it_shrinks_no_further_than_the_busiest_of_them_needed() -> None:
    samples = [QUIET] * (SCALE_DOWN_SAMPLES - 3) + [BUSY] + [QUIET] * 2
    assert after(samples, ScalingState(cu=4)) == ScalingState(cu=2)
    assert after([QUIET] * SCALE_DOWN_SAMPLES, ScalingState(cu=2)) == ScalingState(cu=0.25)


def test_a_load_that_fills_its_size_keeps_it() -> None:
    steady = Load(cores=0.7, memory_bytes=GIB)
    assert after([steady] * 3 * SCALE_DOWN_SAMPLES, ScalingState(cu=1)) == ScalingState(cu=1)


def test_equal_limits_leave_nothing_to_decide() -> None:
    assert after([BUSY] * 20, ScalingState(cu=1), min_cu=1, max_cu=1) == ScalingState(cu=1)
    assert after([QUIET] * 20, ScalingState(cu=1), min_cu=1, max_cu=1) == ScalingState(cu=1)


def test_limits_that_moved_take_the_size_with_them() -> None:
    assert after([BUSY], ScalingState(cu=8), min_cu=0.25, max_cu=1).cu == 1
    assert after([QUIET], ScalingState(cu=0.25), min_cu=2, max_cu=4).cu == 2


def test_memory_is_four_gibibytes_a_cu_and_at_least_one() -> None:
    assert [memory_bytes_for(cu) for cu in (0.1, 0.25, 0.5, 1, 8)] == [GIB, GIB, 2 * GIB, 4 * GIB, 32 * GIB]


_limits = st.tuples(st.sampled_from((0.25, 0.5, 1, 2, 7)), st.sampled_from((0.25, 0.75, 1, 3, 8, 64))).map(sorted)
_loads = st.builds(Load, cores=st.floats(0, 100), memory_bytes=st.integers(0, 1000 * GIB))


@given(limits=_limits, samples=st.lists(_loads, max_size=40), start=st.floats(0.1, 100))
def test_it_is_always_one_of_its_sizes(limits: list[float], samples: list[Load], start: float) -> None:
    min_cu, max_cu = limits
    state = ScalingState(cu=min(max(start, min_cu), max_cu))
    allowed = {*list_sizes(min_cu, max_cu), state.cu}
    for load in samples:
        before, state = state, next_scaling_state(state, load, min_cu, max_cu)
        assert state.cu in allowed
        assert state.cu >= required_size(load, min_cu, max_cu)
        assert state.quiet_samples < SCALE_DOWN_SAMPLES
        assert state.cu <= before.cu or state.cu == required_size(load, min_cu, max_cu)


@pytest.mark.parametrize(("minimum", "maximum"), [(0.25, 0.5), (0.25, 2), (1, 8)])
def test_a_compute_at_its_cpu_cap_gets_its_largest_size(minimum: float, maximum: float) -> None:
    """The cap is that of the maximum size, so that a compute of any size can use enough to show that it needs more."""
    load = Load(cores=0.97 * maximum, memory_bytes=0)
    for cu in list_sizes(minimum, maximum):
        assert next_scaling_state(ScalingState(cu=cu), load, minimum, maximum).cu == maximum
