"""The consumption history of an organization: in total, by project and by branch. None of these wakes a compute."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from bough.access import levels
from bough.access.principal import Principal
from bough.api.dependencies import PrincipalDep, ServicesDep
from bough.api.v2 import consumption_query as query
from bough.api.v2 import consumption_views as views
from bough.control.consumption.history import History
from bough.control.services import Services
from bough.domain.consumption_metrics import (
    ACCOUNT_METRICS,
    BRANCH_METRICS_V2,
    PROJECT_METRICS,
    PROJECT_METRICS_V2,
    Metric,
)
from bough.domain.consumption_periods import add_up_periods
from bough.domain.rights import AccessLevel, OrgRight
from bough.errors import Invalid
from bough.ids import BranchId, OrganizationId, ProjectId
from bough.store.consumption_reads import Range
from bough.store.store import Rows

router = APIRouter(tags=["Consumption"])

ProjectLimit = Annotated[int, Query(ge=1, le=100)]
BranchLimit = Annotated[int, Query(ge=1, le=1000)]
IncludeV1 = Annotated[bool, Query(deprecated=True)]


@router.get("/consumption_history/account", response_model=views.AccountConsumption, deprecated=True)
async def get_account_consumption(
    request: Request,
    caller: PrincipalDep,
    services: ServicesDep,
    span: query.SpanDep,
    org_id: query.OrgId = None,
    metrics: query.Names = None,
    include_v1_metrics: IncludeV1 = False,
) -> Response:
    """Get the consumption of all projects of an organization together, by default of the caller's own."""
    chosen = views.with_required(_parse_v1_metrics(request, ACCOUNT_METRICS, includes_all=include_v1_metrics))
    owner = _organization(caller, org_id, right=OrgRight.SEE_CONSUMPTION)
    history = History(owner, span, chosen)
    async with services.store.read(slow=True) as rows:
        found = await rows.consumption_reads.list_projects(Range(org_id=owner, start=span.start))
        total = add_up_periods([periods async for _, periods in history.read_projects(rows, found)])
    return views.write_response("periods", views.PeriodWriter(chosen, is_v2=False).write(total))


@router.get("/consumption_history/projects", response_model=views.ProjectsConsumption)
async def get_projects_consumption(
    request: Request,
    caller: PrincipalDep,
    services: ServicesDep,
    span: query.SpanDep,
    org_id: query.OrgId = None,
    project_ids: query.Ids = None,
    metrics: query.Names = None,
    include_v1_metrics: IncludeV1 = False,
    limit: ProjectLimit = 10,
    cursor: query.Cursor = None,
) -> Response:
    """Get the consumption of each project of an organization, by default of the caller's own, newest first."""
    chosen = views.with_required(_parse_v1_metrics(request, PROJECT_METRICS, includes_all=include_v1_metrics))
    history = History(_organization(caller, org_id), span, chosen)
    page = _ProjectPage(history, query.parse_ids(request, "project_ids", ProjectId), limit, cursor)
    return await page.answer(caller, services, is_v2=False)


@router.get("/consumption_history/v2/projects", response_model=views.ProjectsConsumptionV2)
async def get_projects_consumption_v2(
    request: Request,
    caller: PrincipalDep,
    services: ServicesDep,
    span: query.SpanDep,
    org_id: query.RequiredOrgId,
    metrics: query.Names = None,
    project_ids: query.Ids = None,
    limit: ProjectLimit = 10,
    cursor: query.Cursor = None,
) -> Response:
    """Get the metrics of each project of an organization, newest first. `metrics` is required."""
    chosen = query.parse_metrics(request, PROJECT_METRICS_V2, is_required=True)
    history = History(_organization(caller, org_id), span, chosen)
    page = _ProjectPage(history, query.parse_ids(request, "project_ids", ProjectId), limit, cursor)
    return await page.answer(caller, services, is_v2=True)


@router.get("/consumption_history/v2/branches", response_model=views.BranchesConsumptionV2)
async def get_branches_consumption_v2(
    request: Request,
    caller: PrincipalDep,
    services: ServicesDep,
    span: query.SpanDep,
    org_id: query.RequiredOrgId,
    metrics: query.Names = None,
    project_ids: query.Ids = None,
    branch_ids: query.Ids = None,
    limit: BranchLimit = 100,
    cursor: query.Cursor = None,
) -> Response:
    """Get the metrics of each branch of the given projects. `metrics` and `project_ids` are required."""
    chosen = query.parse_metrics(request, BRANCH_METRICS_V2, is_required=True)
    only = query.parse_ids(request, "project_ids", ProjectId)
    if only is None:
        raise Invalid("project_ids: name at least one project.")
    only_branches = query.parse_ids(request, "branch_ids", BranchId)
    history = History(_organization(caller, org_id), span, chosen)
    after = BranchId.parse(cursor) if cursor else None
    async with services.store.read(slow=True) as rows:
        await _check_cursor(rows, after)
        wanted = await _range(rows, caller, history, only)
        found = await rows.consumption_reads.list_branches(wanted, only_branches, limit + 1, after)
        writer = views.PeriodWriter(chosen, is_v2=True)
        shown = [
            f'{{"project_id":"{branch.project_id}","branch_id":"{branch.id}","periods":{writer.write(periods)}}}'
            async for branch, periods in history.read_branches(rows, found[:limit])
        ]
    more = found[limit - 1].id if len(found) > limit else None
    return views.write_response("branches", f"[{','.join(shown)}]", more)


@dataclass(frozen=True, slots=True)
class _ProjectPage:
    history: History
    only: Sequence[ProjectId] | None
    limit: int
    cursor: str | None

    async def answer(self, caller: Principal, services: Services, *, is_v2: bool) -> Response:
        after = ProjectId.parse(self.cursor) if self.cursor else None
        async with services.store.read(slow=True) as rows:
            await _check_cursor(rows, after)
            wanted = await _range(rows, caller, self.history, self.only)
            found = await rows.consumption_reads.list_projects(wanted, self.limit + 1, after)
            writer = views.PeriodWriter(self.history.metrics, is_v2=is_v2)
            shown = [
                f'{{"project_id":"{project.id}","periods":{writer.write(periods)}}}'
                async for project, periods in self.history.read_projects(rows, found[: self.limit])
            ]
        more = found[self.limit - 1].id if len(found) > self.limit else None
        return views.write_response("projects", f"[{','.join(shown)}]", more)


def _organization(caller: Principal, org_id: str | None, *, right: OrgRight = OrgRight.READ) -> OrganizationId:
    owner = OrganizationId(org_id) if org_id is not None else caller.default_organization().id
    return caller.organization(owner, right=right).id


async def _range(rows: Rows, caller: Principal, history: History, only: Sequence[ProjectId] | None = None) -> Range:
    membership = caller.memberships[history.org_id]
    readable = await levels.find_reachable_projects(rows, caller, [membership], AccessLevel.VIEWER)
    return Range(org_id=history.org_id, start=history.span.start, only=only, readable=readable[history.org_id])


async def _check_cursor(rows: Rows, cursor: ProjectId | BranchId | None) -> None:
    if cursor is not None and not await rows.consumption_reads.is_known(cursor):
        raise Invalid("The cursor was not issued by this API. Start again without a cursor.")


def _parse_v1_metrics(request: Request, known: Sequence[Metric], *, includes_all: bool) -> tuple[Metric, ...]:
    """Return the metrics that were asked for. Older clients ask for one more with `include_v1_metrics`."""
    named = query.parse_metrics(request, known)
    return tuple(ACCOUNT_METRICS) if includes_all and not named else named
