"""API code cannot access the machine: the guard that all tests here use detects violations."""

import asyncio
import subprocess
from collections.abc import Callable
from typing import Any, cast

import pytest

from bough.ids import EndpointId
from support import api_app as fronts
from support.api_app import ApiApp
from support.api_client import Caller


async def _caught(app: ApiApp, caller: Caller, patch: pytest.MonkeyPatch, act: Callable[..., Any]) -> str:
    """Returns the violations that the guard recorded when every authenticated request does this."""
    with patch.context() as during:
        during.setattr(app.services.rate_limiter, "take", act)
        response = await caller.client_for(app, crashes=True).get("/auth")
    assert response.status_code == 500
    (offence,) = fronts.violations
    fronts.violations.clear()
    return offence


async def test_a_handler_that_runs_a_program_is_caught(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    offence = await _caught(api_app, caller, monkeypatch, lambda *_: subprocess.run(["true"], check=True))
    assert offence.startswith("a handler started")


async def test_a_handler_that_starts_a_process_is_caught(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(*_: Any) -> None:
        asyncio.create_subprocess_exec("true").send(None)

    assert (await _caught(api_app, caller, monkeypatch, act)).startswith("a handler started")


async def test_a_handler_that_calls_the_engine_is_caught(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(*_: Any) -> None:
        cast(Any, api_app.services.engine).ensure_suspended(EndpointId("ep-a-b-c")).close()

    assert await _caught(api_app, caller, monkeypatch, act) == "a handler called engine.ensure_suspended"


def test_outside_of_requests_processes_may_start() -> None:
    assert subprocess.run(["true"], check=False).returncode == 0
