"""The only source of time.

Call `clock.now()` through the module, so that a test can stand at another moment.
"""

import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that never jump; for measuring and waiting, never for storing."""
    return time.monotonic()
