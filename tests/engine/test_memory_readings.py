"""The memory of a compute is read again when it may have changed."""

import pytest

from bough import clock
from bough.engine.local.computes.memory_readings import MAX_AGE_SECONDS, MemoryReadings
from bough.ids import EndpointId

ENDPOINT = EndpointId("ep-one")


def test_the_memory_of_an_idle_compute_is_read_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, values = 1000.0, iter(range(100))
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    readings = MemoryReadings()

    def get(cpu_seconds: float, run: str = "1/1") -> int:
        return readings.get(ENDPOINT, run, cpu_seconds, lambda: next(values))

    assert [get(1.0), get(1.02), get(1.02)] == [0, 0, 0]
    assert [get(1.04), get(1.05)] == [1, 1]  # it used CPU time
    assert get(1.05, run="2/2") == 2  # it is another process
    now += MAX_AGE_SECONDS
    assert get(1.05, run="2/2") == 3
    readings.retain([])
    assert get(1.05, run="2/2") == 4
