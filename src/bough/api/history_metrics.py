"""Figures of what is kept to go back to: how much there is, what waits to be archived, and who is in trouble.

Only branches in trouble have figures of their own.
"""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from bough.control.platform.measurements import HistoryMeasurements


def build_families(metrics: HistoryMeasurements) -> Iterator[Metric]:
    troubles = metrics.with_problems()
    yield GaugeMetricFamily("bough_history_bytes", "Archived WAL and bases, on disk", metrics.history_bytes)
    yield GaugeMetricFamily(
        "bough_history_waiting_bytes", "WAL that is to be archived and is not yet", metrics.waiting_bytes
    )
    yield GaugeMetricFamily("bough_history_troubles", "Histories that fall behind", len(troubles))
    behind = GaugeMetricFamily(
        "bough_history_behind_bytes",
        "WAL that waits to be archived, of each branch whose history falls behind",
        labels=["project_id", "branch_id"],
    )
    by_branch: dict[tuple[str, str], int] = {}
    for figure in troubles.values():
        names = str(figure.project_id), str(figure.branch_id or "")
        by_branch[names] = by_branch.get(names, 0) + figure.waiting_bytes
    for names, waiting in by_branch.items():
        behind.add_metric(names, waiting)
    yield behind
