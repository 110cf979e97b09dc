"""The dashboard and the alert rules in deploy/ use metrics that the platform really exposes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bough.access.metrics_token import load_metrics_token
from support.api_app import ApiApp

ROOT = Path(__file__).parents[2]
DASHBOARD, ALERTS = ROOT / "deploy/grafana-dashboard.json", ROOT / "deploy/prometheus-alerts.json"
FUNCTIONS = {"absent", "count", "histogram_quantile", "increase", "label_values", "rate", "sum", "topk", "vector"}
WORDS = {"and", "by", "on", "or"}
OF_PROMETHEUS = {"up"}
DURATION = re.compile(r"\d+[smhd]")
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def used_metrics(expression: str) -> set[str]:
    """Return the names that are neither labels, functions nor words of the query language."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare)
    bare = re.sub(r"\b(by|on) \([^)]*\)", " ", bare)
    bare = re.sub(r"label_values\((\w+), \w+\)", r"\1", bare)
    found = set(re.findall(r"(?<![\w.])[A-Za-z_:][\w:]*", bare))
    assert {name for name in found if f"{name}(" in bare.replace(" ", "")} <= FUNCTIONS | WORDS, expression
    return found - FUNCTIONS - WORDS


def load_rules() -> list[dict[str, Any]]:
    groups = json.loads(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_queries() -> Iterator[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}", panel["title"]
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


async def exposed_metrics(app: ApiApp) -> set[str]:
    async with app.client(load_metrics_token(app.settings)) as client:
        response = await client.get("http://bough/metrics")
    assert response.status_code == 200
    return {
        family.name + suffix
        for family in text_string_to_metric_families(response.text)
        for suffix in SUFFIXES.get(family.type, ())
    }


@pytest.mark.parametrize("file", [DASHBOARD, ALERTS], ids=lambda file: file.name)
async def test_every_metric_in_use_is_exposed(api_app: ApiApp, file: Path) -> None:
    expressions = list(dashboard_queries()) if file == DASHBOARD else [rule["expr"] for rule in load_rules()]
    exposed = await exposed_metrics(api_app) | OF_PROMETHEUS
    assert len(expressions) > 10
    for expression in expressions:
        names = used_metrics(expression)
        assert names, expression
        assert names <= exposed, expression


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Bough[A-Z][A-Za-z]+", rule["alert"])
    assert DURATION.fullmatch(rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    runbook = rule["annotations"].get("runbook")
    assert runbook is None or (ROOT / runbook).is_file()
    assert runbook or rule["labels"]["severity"] == "warning", "a critical alert needs a runbook"
    assert all(rule["expr"].count(opening) == rule["expr"].count(closing) for opening, closing in ("()", "{}", "[]"))


def test_names_of_alerts_and_panels_are_unique() -> None:
    alerts = [rule["alert"] for rule in load_rules()]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for names in (alerts, [panel["title"] for panel in panels], [panel["id"] for panel in panels]):
        assert len(set(names)) == len(names)


def test_a_metric_that_does_not_exist_is_noticed() -> None:
    assert used_metrics('sum by (le) (rate(bough_x_bucket{job="$job"}[5m])) > 5') == {"bough_x_bucket"}
    assert used_metrics("label_values(bough_y, job)") == {"bough_y"}
    assert used_metrics("absent(a) and on() (b == 1) or vector(0)") == {"a", "b"}
