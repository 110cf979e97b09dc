"""The handle of a running statement: its server process, and when the session and the statement began. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from bough.errors import Invalid

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # that of Postgres
_MICROSECOND = timedelta(microseconds=1)
_FORM = re.compile(r"([0-9]{1,10})-([0-9a-f]{1,14})-([0-9a-f]{1,14})")
_MAX_PID = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementHandle:
    pid: int
    session_began_at: datetime
    began_at: datetime

    def __str__(self) -> str:
        times = (self.session_began_at, self.began_at)
        return "-".join([str(self.pid), *(f"{(each - _EPOCH) // _MICROSECOND:x}" for each in times)])

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _FORM.fullmatch(text)
        if match is None or int(match[1]) > _MAX_PID:
            raise Invalid("This is not the handle of a statement. List the statements that run now to get one.")
        session_began_at, began_at = (_EPOCH + int(digits, 16) * _MICROSECOND for digits in match.groups()[1:])
        return cls(pid=int(match[1]), session_began_at=session_began_at, began_at=began_at)
