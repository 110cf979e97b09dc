"""The consumption period: a calendar month in UTC."""

from datetime import datetime, timedelta


def month_start(moment: datetime) -> datetime:
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(moment: datetime) -> datetime:
    return month_start(month_start(moment) + timedelta(days=32))
