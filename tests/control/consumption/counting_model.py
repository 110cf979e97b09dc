"""A model of what was used and stored, against which the consumption history is compared."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bough.domain.consumption import Amounts, Flows, Granularity

HOUR = timedelta(hours=1)


@dataclass
class ConsumerModel:
    """Keeps every event, and adds them up for any bucket."""

    flows: list[tuple[datetime, Flows]] = field(default_factory=list)
    amounts: list[tuple[datetime, Amounts]] = field(default_factory=list)

    def use(self, at: datetime, flows: Flows) -> None:
        self.flows.append((at, flows))

    def store(self, at: datetime, amounts: Amounts) -> None:
        self.amounts.append((at, amounts))

    def sum_flows(self, name: str, start: datetime, end: datetime) -> float:
        return float(sum(getattr(flows, name) for at, flows in self.flows if start <= at < end))

    def amount_hours(self, name: str, start: datetime, end: datetime) -> float:
        total = 0.0
        for begin, until, amounts in self._spans():
            overlap = min(until, end) - max(begin, start)
            if overlap > timedelta(0):
                total += getattr(amounts, name) * (overlap / HOUR)
        return total

    def peak_hours(self, name: str, start: datetime, end: datetime) -> float:
        """Add up the highest value of each hour. A amount that ends exactly when an hour begins is in both."""
        peaks: dict[datetime, int] = defaultdict(int)
        for begin, until, amounts in self._spans():
            hour = Granularity.HOURLY.start_of(max(begin, start))
            while hour <= until and hour < end:
                peaks[hour] = max(peaks[hour], getattr(amounts, name))
                hour += HOUR
        return float(sum(peaks.values()))

    def _spans(self) -> list[tuple[datetime, datetime, Amounts]]:
        ends = [at for at, _ in self.amounts[1:]] + [datetime.max.replace(tzinfo=self.amounts[0][0].tzinfo)]
        return [(at, end, amounts) for (at, amounts), end in zip(self.amounts, ends, strict=True)]
