"""The planned maintenance of a project."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response

from bough.api.dependencies import ReadableProject, ServicesDep
from bough.api.schemas import View, to_response
from bough.control.projects.maintenance import window_of
from bough.domain.endpoint import Endpoint
from bough.domain.maintenance import RestartNeed
from bough.engine.port import PutBackBuild

router = APIRouter(tags=["Maintenance"])


class WindowView(View):
    weekdays: list[int]
    start_time: str
    end_time: str


class NeededRestartView(View):
    endpoint_id: str
    reasons: list[str]
    from_version: str
    to_version: str
    settings: list[str]
    fixes_vulnerabilities: bool

    @classmethod
    def of(cls, need: RestartNeed) -> "NeededRestartView":
        return cls(endpoint_id=need.endpoint_id, **need.to_fields())


class FailedBuildView(View):
    endpoint_id: str
    version: str
    kept_version: str
    reason: str
    at: datetime

    @classmethod
    def of(cls, endpoint: Endpoint, put_back: PutBackBuild) -> "FailedBuildView":
        return cls(
            endpoint_id=endpoint.id,
            version=put_back.version,
            kept_version=put_back.kept_version,
            reason=put_back.reason,
            at=put_back.at,
        )


class OutcomeView(View):
    scheduled_for: datetime | None
    ended_at: datetime
    restarted: list[str]
    failed: dict[str, str]
    passed_over: list[str]

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> "OutcomeView | None":
        if "ended_at" not in outcome:
            return None
        return cls.model_validate({name: outcome.get(name) for name in cls.model_fields})


class MaintenanceResponse(View):
    window: WindowView
    scheduled_for: datetime | None
    ends_at: datetime | None
    missed_windows: int
    needed_restarts: list[NeededRestartView]
    failed_builds: list[FailedBuildView]
    last_outcome: OutcomeView | None


@router.get("/bough/projects/{project_id}/maintenance", response_model=MaintenanceResponse)
async def get_maintenance(project: ReadableProject, services: ServicesDep) -> Response:
    """Get when computes of the project are restarted and why, builds with which a compute did not start, and what was
    done in the last maintenance window.
    """
    needs = await services.engine.list_restart_needs(project.id)
    async with services.store.read() as rows:
        plan = await rows.maintenance.get(project.id)
        endpoints = await rows.endpoints.list_in_project(project.id)
        branches = {branch.id: branch for branch in await rows.branches.list_in_project(project.id)}
    found = [
        (each, await services.engine.find_put_back(each.volume_id or branches[each.branch_id].volume_id))
        for each in endpoints
    ]
    return to_response(
        MaintenanceResponse(
            window=WindowView(**window_of(project, services.settings).to_settings()),
            scheduled_for=plan.scheduled_for if plan else None,
            ends_at=plan.ends_at if plan else None,
            missed_windows=plan.missed_windows if plan else 0,
            needed_restarts=[NeededRestartView.of(need) for need in needs],
            failed_builds=[FailedBuildView.of(endpoint, put_back) for endpoint, put_back in found if put_back],
            last_outcome=OutcomeView.of(plan.outcome) if plan else None,
        )
    )
