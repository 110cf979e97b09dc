"""Restarts computes in the maintenance windows of their projects, for another Postgres build or for settings that wait.

A restart is planned and announced first. It consists of the ordinary operations, so it survives the end of control at
any moment. Nothing is restarted before the window or after it.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bough import clock, log
from bough.access.vault import Vault
from bough.config import Settings
from bough.control.audit import write_platform_record
from bough.control.projects import maintenance as control_maintenance
from bough.control.projects.maintenance import Outcome
from bough.control.projects.maintenance_mails import MaintenanceMails
from bough.domain import maintenance
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, request_state
from bough.domain.maintenance import Maintenance, RestartNeed, Step
from bough.domain.operation import Operation, OperationStatus
from bough.domain.project import Project
from bough.engine.port import BuildInspection, ComputeEngine, EngineError
from bough.errors import Busy
from bough.ids import EndpointId, OperationId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.queue import OperationQueue
from bough.store.store import Rows, Store
from bough.tasks.inspections import InspectionPool

REQUEST_ID = "maintenance"
IDLE_INTERVAL, BUSY_INTERVAL = 10.0, 1.0  # seconds between two runs; the second while computes are restarted
CONCURRENCY = 4  # computes that are asked whether they are in use
_STARTED = "started"  # in the outcome while a window is open: endpoint → operation that starts it

logger = log.get_logger(component="tasks")


class _MaintenanceEngine(ComputeEngine, BuildInspection, Protocol):
    """The part of the engine that this module uses."""


@dataclass(frozen=True, slots=True)
class _Restart:
    """A compute to restart now."""

    endpoint: Endpoint
    plan: Maintenance

    @property
    def id(self) -> EndpointId:
        return self.endpoint.id

    @property
    def project_id(self) -> ProjectId:
        return self.endpoint.project_id


class RunMaintenance:
    def __init__(
        self, settings: Settings, store: Store, engine: _MaintenanceEngine, queue: OperationQueue, vault: Vault
    ) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._queue = queue
        self._mails = MaintenanceMails(settings, vault)
        self._inspections: InspectionPool[_Restart] = InspectionPool(CONCURRENCY, self._restart_if_unused)
        self._slots = 0
        self.interval = IDLE_INTERVAL

    async def run(self) -> str:
        async with self._store.read() as rows:
            plans = {plan.project_id: plan for plan in await rows.maintenance.list_planned()}
            opened = await rows.operations.list_open_of_request(REQUEST_ID)
        needs = await self._find_needs()  # after the operations, so that a restart that ends meanwhile is seen as one
        self._slots = self._settings.maintenance_restarts_at_once - len({each.endpoint_id for each in opened})
        due = [
            restart
            for project_id in sorted(needs.keys() | plans.keys())
            for restart in await self._advance(project_id, needs.get(project_id, ()), plans.get(project_id), opened)
        ]
        restarted = await self._inspections.run(each for each in due if self._inspections.can_inspect(each.id))
        self.interval = BUSY_INTERVAL if restarted or opened else IDLE_INTERVAL
        return f"restarting {restarted} computes" if restarted else ""

    async def _find_needs(self) -> Mapping[ProjectId, Sequence[RestartNeed]]:
        needs: dict[ProjectId, list[RestartNeed]] = defaultdict(list)
        for need in await self._engine.list_restart_needs():
            needs[need.project_id].append(need)
        return needs

    async def _advance(
        self,
        project_id: ProjectId,
        needs: Sequence[RestartNeed],
        plan: Maintenance | None,
        opened: Collection[Operation],
    ) -> list[_Restart]:
        """Take the next step of a project's plan. Return the computes to restart now."""
        is_settled = not any(each.project_id == project_id for each in opened)
        step = maintenance.next_step(plan, clock.now(), is_needed=bool(needs), is_settled=is_settled)
        if step is Step.RESTART and plan is not None:
            return await self._list_due(plan, needs) if self._slots > 0 else []
        if step is Step.WAIT and (plan is None or plan.reasons == _to_reasons(needs)):
            return []
        async with self._store.transaction(durable=step is not Step.WAIT) as rows:
            project = await rows.projects.get(project_id)
            fresh = await rows.maintenance.get(project_id)
            if project is None or project.deleted_at is not None or (plan is not None and fresh != plan):
                return []  # the window was changed in the meantime
            await self._write(rows, project, step, fresh, needs)
        return []

    async def _write(
        self, rows: Rows, project: Project, step: Step, plan: Maintenance | None, needs: Sequence[RestartNeed]
    ) -> None:
        reasons = _to_reasons(needs)
        if step is Step.PLAN:
            await self._plan(rows, project, plan, reasons)
        elif plan is not None and step is Step.WAIT:
            await rows.maintenance.save(replace(plan, reasons=reasons))
        elif plan is not None:
            await self._end_window(rows, project, plan, needs, is_over=step is Step.FINISH)

    async def _plan(
        self, rows: Rows, project: Project, earlier: Maintenance | None, reasons: Mapping[str, object]
    ) -> None:
        window = control_maintenance.window_of(project, self._settings)
        notice = control_maintenance.notice_of(self._settings)
        plan = maintenance.plan_first(project.id, window, clock.now(), notice)
        plan = replace(plan, reasons=reasons, outcome=earlier.outcome if earlier else {})
        await rows.maintenance.save(plan)
        await self._mails.announce(rows, project, plan)
        await self._record(rows, plan, "plan_maintenance", scheduled_for=str(plan.scheduled_for), reasons=dict(reasons))
        logger.info("maintenance_planned", project_id=project.id, scheduled_for=str(plan.scheduled_for))

    async def _end_window(
        self, rows: Rows, project: Project, plan: Maintenance, needs: Sequence[RestartNeed], *, is_over: bool
    ) -> None:
        outcome = await _read_outcome(rows, plan, needs)
        fields = outcome.to_fields(plan)
        if is_over:
            after = maintenance.finish(plan, fields)
        else:
            is_forced = self._settings.maintenance_forces_security and any(need.fixes_vulnerabilities for need in needs)
            window = control_maintenance.window_of(project, self._settings)
            after = maintenance.postpone(plan, window, clock.now(), is_forced=is_forced)
            after = replace(after, outcome=fields, reasons=_to_reasons(needs))
        await rows.maintenance.save(after)
        if not outcome.is_empty:
            await self._mails.report(rows, project, outcome, after)
            await self._record(rows, after, "end_maintenance", **fields)
        logger.info("maintenance_ended", project_id=project.id, **fields)

    async def _record(self, rows: Rows, plan: Maintenance, action: str, **details: Any) -> None:
        await write_platform_record(rows, action, request_id=REQUEST_ID, project_id=plan.project_id, **details)

    async def _list_due(self, plan: Maintenance, needs: Sequence[RestartNeed]) -> list[_Restart]:
        """Return the computes that may be restarted now: replicas after their primaries."""
        needed = {need.endpoint_id for need in needs if not need.is_waiting_for_base}
        async with self._store.read() as rows:
            endpoints = await rows.endpoints.list_in_project(plan.project_id)
            waiting = {each.endpoint_id for each in await rows.operations.list_open(plan.project_id)}
        blocked = {
            each.branch_id
            for each in endpoints
            if each.type is EndpointType.READ_WRITE and (each.id in needed or each.id in waiting)
        }
        return [
            _Restart(each, plan)
            for each in endpoints
            if each.id in needed
            and _is_stable(each)
            and (each.type is EndpointType.READ_WRITE or each.branch_id not in blocked)
        ]

    async def _restart_if_unused(self, restart: _Restart) -> bool:
        """Wait for a moment without open transactions, except at the end of the window."""
        if self._slots <= 0:
            return False
        if not maintenance.may_interrupt(restart.plan, clock.now()) and await self._is_busy(restart.id):
            return False
        if self._slots <= 0:  # another one was faster
            return False
        self._slots -= 1
        return await self._enqueue(restart)

    async def _is_busy(self, endpoint: EndpointId) -> bool:
        try:
            return await self._engine.is_busy(endpoint)
        except EngineError:
            return True

    async def _enqueue(self, restart: _Restart) -> bool:
        stop = NewOperation.for_endpoint(SuspendCompute, restart.endpoint)
        start = NewOperation.for_endpoint(StartCompute, restart.endpoint)
        try:
            async with self._queue.locked_transaction(start.lock, can_wait=False) as rows:
                fresh = await rows.endpoints.get_live(restart.id)
                plan = await rows.maintenance.get(restart.project_id)
                if fresh is None or not _is_stable(fresh) or plan is None or not _is_open(plan):
                    return False
                if restart.id in plan.outcome.get(_STARTED, {}):
                    return False  # once in a window, even if it did not help
                await rows.endpoints.save(request_state(fresh, EndpointState.IDLE, clock.now()))
                operations = await self._queue.enqueue(rows, [stop, start], request_id=REQUEST_ID)
                started = {**plan.outcome.get(_STARTED, {}), restart.id: operations[-1].id}
                await rows.maintenance.save(replace(plan, outcome={**plan.outcome, _STARTED: started}))
                await self._record_restart(rows, restart, plan)
        except Busy:
            return False  # another operation is running; the next run tries again
        return True

    async def _record_restart(self, rows: Rows, restart: _Restart, plan: Maintenance) -> None:
        await write_platform_record(
            rows,
            "restart_endpoint",
            request_id=REQUEST_ID,
            project_id=restart.project_id,
            resource=restart.id,
            reason=dict(plan.reasons.get(restart.id, {})),
        )


def _is_stable(endpoint: Endpoint) -> bool:
    """A compute that changes its state is passed over."""
    return endpoint.state is EndpointState.ACTIVE and endpoint.pending_state is None


def _is_open(plan: Maintenance) -> bool:
    now = clock.now()
    return plan.scheduled_for is not None and plan.ends_at is not None and plan.scheduled_for <= now < plan.ends_at


def _to_reasons(needs: Sequence[RestartNeed]) -> dict[str, object]:
    return {str(need.endpoint_id): need.to_fields() for need in needs}


async def _read_outcome(rows: Rows, plan: Maintenance, needs: Sequence[RestartNeed]) -> Outcome:
    restarted, failed = [], {}
    for endpoint, operation_id in sorted(plan.outcome.get(_STARTED, {}).items()):
        operation = await rows.operations.get(OperationId(operation_id))
        if operation is None or (operation.status is OperationStatus.FINISHED and not operation.error):
            restarted.append(endpoint)
        else:
            failed[endpoint] = operation.error or f"The start was {operation.status}."
    remaining = {str(need.endpoint_id) for need in needs} - failed.keys()
    return Outcome(
        ended_at=clock.now(),
        restarted=tuple(each for each in restarted if each not in remaining),
        failed=failed,
        passed_over=tuple(sorted(remaining)),
    )
