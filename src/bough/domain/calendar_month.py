"""The calendar month, in UTC: the period of transfer limits and of the consumption that users see."""

from datetime import datetime


def start_of_month(moment: datetime) -> datetime:
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def start_of_next_month(moment: datetime) -> datetime:
    first = start_of_month(moment)
    return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
