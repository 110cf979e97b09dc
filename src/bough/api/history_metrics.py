"""Metrics of the history of branches: its size, the WAL that waits to be archived, and delays.

Only branches whose archiving is delayed have their own time series.
"""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from bough.control.platform.measurements import HistoryMeasurements


def build_families(metrics: HistoryMeasurements) -> Iterator[Metric]:
    troubles = metrics.with_problems()
    yield GaugeMetricFamily("bough_history_bytes", "Disk space of archived WAL and bases", metrics.history_bytes)
    yield GaugeMetricFamily("bough_history_waiting_bytes", "WAL that waits to be archived", metrics.waiting_bytes)
    yield GaugeMetricFamily("bough_history_troubles", "Branches whose archiving is delayed", len(troubles))
    behind = GaugeMetricFamily(
        "bough_history_behind_bytes",
        "WAL that waits to be archived, for branches whose archiving is delayed",
        labels=["project_id", "branch_id"],
    )
    by_branch: dict[tuple[str, str], int] = {}
    for figure in troubles.values():
        names = str(figure.project_id), str(figure.branch_id or "")
        by_branch[names] = by_branch.get(names, 0) + figure.waiting_bytes
    for names, waiting in by_branch.items():
        behind.add_metric(names, waiting)
    yield behind
