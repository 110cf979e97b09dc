"""The edges cannot reach the machine: the guard that every test here runs under does bite."""

import asyncio
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from api import front as fronts
from api.callers import Caller
from api.front import Front
from bough.ids import EndpointId


async def _caught(front: Front, caller: Caller, patch: pytest.MonkeyPatch, act: Callable[..., Any]) -> str:
    """What the guard noted when every authenticated request acts like this."""
    with patch.context() as during:
        during.setattr(front.parts.limiter, "take", act)
        answer = await caller.at(front, crashes=True).get("/auth")
    assert answer.status_code == 500
    (offence,) = fronts.offences
    fronts.offences.clear()
    return offence


async def test_a_handler_that_runs_a_program_is_caught(
    front: Front, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    offence = await _caught(front, caller, monkeypatch, lambda *_: subprocess.run(["true"], check=True))
    assert offence.startswith("a handler started")


async def test_a_handler_that_starts_a_process_is_caught(
    front: Front, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(*_: Any) -> None:
        asyncio.create_subprocess_exec("true").send(None)

    assert (await _caught(front, caller, monkeypatch, act)).startswith("a handler started")


async def test_a_handler_that_calls_the_engine_is_caught(
    front: Front, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(*_: Any) -> None:
        front.parts.engine.ensure_suspended(EndpointId("ep-a-b-c")).close()

    assert await _caught(front, caller, monkeypatch, act) == "a handler called engine.ensure_suspended"


def test_outside_of_requests_processes_may_start() -> None:
    assert subprocess.run(["true"], check=False).returncode == 0
