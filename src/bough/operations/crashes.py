"""What happens to an operation whose step was running when the control process died, by a crash or `kill -9`.

The step may be the cause. It is repeated, each time after a longer pause, and from the second crash on never at the
same time as another suspect, so that only the cause keeps counting crashes. After several crashes the operation is
undone. When it cannot be undone, or the undo crashes too, it is set aside and retried only after 1, 2, 4 … hours. An
orderly stop releases running operations, so it does not count as a crash.

An operation that this version cannot decode never starts, so its lease expires, too. It is counted and set aside
likewise, and left to the version that can decode it.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from bough.domain.operation import Operation

SUSPECT_CRASHES = 2  # from this count on, suspects run one at a time
MAX_CRASHES = 5  # of one step, before it is undone or set aside
_FIRST_PAUSE = timedelta(seconds=1)
_SET_ASIDE_FIRST, _SET_ASIDE_MAX = timedelta(hours=1), timedelta(hours=24)


def is_suspect(operation: Operation) -> bool:
    return operation.crashes >= SUSPECT_CRASHES


def is_set_aside(operation: Operation) -> bool:
    return operation.crashes >= MAX_CRASHES and not operation.has_ended


def record_crash(operation: Operation, now: datetime, *, can_undo: bool, can_decode: bool) -> Operation:
    """Return the operation after one more crash, without a lease."""
    crashes = operation.crashes + 1
    counted = replace(operation, crashes=crashes, lease_until=None, updated_at=now)
    if crashes < MAX_CRASHES:
        pause = _FIRST_PAUSE * 2 ** (crashes - SUSPECT_CRASHES) if crashes >= SUSPECT_CRASHES else timedelta()
        return replace(counted, due_at=now + pause)
    if can_undo and not operation.undoing:
        return _start_undo(counted, now)
    pause = min(_SET_ASIDE_MAX, _SET_ASIDE_FIRST * 2 ** min(crashes - MAX_CRASHES, 10))
    reason = _explain_crashes(counted) if can_decode else "this version cannot read it"
    return replace(
        counted,
        due_at=now + pause,
        error=f"The operation is set aside: {reason}. Contact the operator of this installation.",
    )


def _start_undo(operation: Operation, now: datetime) -> Operation:
    message = f"The operation is undone: its step {operation.step!r} crashed the control process {MAX_CRASHES} times."
    steps_done = (*operation.steps_done, operation.step)
    return replace(operation, undoing=True, steps_done=steps_done, crashes=0, due_at=now, error=message)


def _explain_crashes(operation: Operation) -> str:
    what = f"undoing its step {_undo_step(operation)!r}" if operation.undoing else f"its step {operation.step!r}"
    return f"{what} crashed the control process {operation.crashes} times"


def _undo_step(operation: Operation) -> str:
    return operation.steps_done[-1] if operation.steps_done else operation.step
