"""The only source of time.

Call `clock.now()` through the module, so that tests can replace it.
"""

import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that never jump; for measuring and waiting, not for storing."""
    return time.monotonic()
