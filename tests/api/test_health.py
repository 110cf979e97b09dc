"""Health checks without a key, and metrics for Prometheus."""

import re
from dataclasses import replace

import pytest

import bough
from bough.access.metrics_token import load_metrics_token
from support.api_app import ApiApp
from support.api_client import Caller

ROOT = "http://bough"


def _number(text: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


async def test_health_needs_no_key_and_counts(api_app: ApiApp, caller: Caller) -> None:
    async with api_app.client() as client:
        before = (await client.get(f"{ROOT}/healthz")).json()
        await caller.create_project()
        after = (await client.get(f"{ROOT}/healthz")).json()
    assert (after["status"], after["version"]) == ("ok", bough.__version__)
    assert after["projects"] == before["projects"] + 1
    assert after["operations_open"] == before["operations_open"] + 2
    assert after["computes_running"] == 0


async def test_health_names_vulnerable_builds_that_projects_use(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.create_project()
    engine = api_app.platform.engine
    used = engine.capabilities().installs[17]
    changed = replace(
        engine.capabilities(), build_warnings=("New.",), vulnerable_builds={used: "Old.", "npm-99": "Unused."}
    )
    monkeypatch.setattr(engine, "capabilities", lambda: changed)
    async with api_app.client() as client:
        health = (await client.get(f"{ROOT}/healthz")).json()
    assert health["postgres_warnings"] == ["New.", "Old."]


async def test_metrics_count_requests_by_route(api_app: ApiApp, caller: Caller) -> None:
    name = 'bough_http_requests_total{method="GET",route="/projects/{project_id}",status="404"}'
    async with api_app.client(load_metrics_token(api_app.settings)) as client:
        before = await client.get(f"{ROOT}/metrics")
        for project_id in ("one", "two", "three"):
            await caller.client.get(f"/projects/{project_id}")
        after = await client.get(f"{ROOT}/metrics")
    assert after.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert _number(after.text, name) == _number(before.text, name) + 3
    assert 'bough_state{thing="operations_open"}' in after.text
    assert "bough_http_request_seconds_bucket" in after.text


async def test_callers_cannot_invent_labels(api_app: ApiApp, caller: Caller) -> None:
    await caller.client.request("BREW", "/projects")
    await caller.client.get("/a-path-of-my-own")
    async with api_app.client(load_metrics_token(api_app.settings)) as client:
        text = (await client.get(f"{ROOT}/metrics")).text
    assert "BREW" not in text
    assert "a-path-of-my-own" not in text
    assert 'method="other"' in text
    assert 'route="unknown"' in text


async def test_metrics_tell_no_secret(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project(name="private-name")
    async with api_app.client(load_metrics_token(api_app.settings)) as client:
        text = (await client.get(f"{ROOT}/metrics")).text
    for private in (caller.token, created["project"]["id"], "private-name", created["roles"][0]["password"]):
        assert private not in text
