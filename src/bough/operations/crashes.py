"""What becomes of an operation whose step was running when control died without stopping: a crash, or `kill -9`.

The step may be why control died. It is repeated, each time after a longer pause, and from the second crash on never
beside another such operation: then only the one that is to blame is counted further. After some crashes its action is
undone; where nothing can be undone, or the undo crashes too, it is set aside and tried again only after an hour, then
two, then four. An orderly stop releases what runs, so it counts as no crash.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from bough.domain.operation import Operation

SUSPECT_CRASHES = 2  # crashes, from which on it runs beside no other suspect
MAX_CRASHES = 5  # crashes of one step; then it is undone, or set aside
_FIRST_PAUSE = timedelta(seconds=1)
_ASIDE_FIRST, _ASIDE_LONGEST = timedelta(hours=1), timedelta(hours=24)


def is_suspect(operation: Operation) -> bool:
    return operation.crashes >= SUSPECT_CRASHES


def is_set_aside(operation: Operation) -> bool:
    return operation.crashes >= MAX_CRASHES and not operation.has_ended


def record_crash(operation: Operation, now: datetime, *, forward_only: bool) -> Operation:
    """The operation as it is after one more crash, held by nobody."""
    crashes = operation.crashes + 1
    counted = replace(operation, crashes=crashes, lease_until=None, updated_at=now)
    if crashes < MAX_CRASHES:
        pause = _FIRST_PAUSE * 2 ** (crashes - SUSPECT_CRASHES) if crashes >= SUSPECT_CRASHES else timedelta()
        return replace(counted, due_at=now + pause)
    if not (forward_only or operation.undoing):
        return _start_undo(counted, now)
    pause = min(_ASIDE_LONGEST, _ASIDE_FIRST * 2 ** min(crashes - MAX_CRASHES, 10))
    what = f"undoing its step {_undo_step(operation)!r}" if operation.undoing else f"its step {operation.step!r}"
    sentence = (
        f"The operation is set aside: {what} ended the control process {crashes} times. The operator has to look."
    )
    return replace(counted, due_at=now + pause, error=sentence)


def _start_undo(operation: Operation, now: datetime) -> Operation:
    sentence = f"The operation is undone: its step {operation.step!r} ended the control process {MAX_CRASHES} times."
    steps_done = (*operation.steps_done, operation.step)
    return replace(operation, undoing=True, steps_done=steps_done, crashes=0, due_at=now, error=sentence)


def _undo_step(operation: Operation) -> str:
    return operation.steps_done[-1] if operation.steps_done else operation.step
