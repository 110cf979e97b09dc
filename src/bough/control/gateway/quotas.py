"""Judges what projects have used in the present month against their quotas and the transfer limit of their plans."""

from collections.abc import Collection
from datetime import datetime

from bough.access.vault import Vault
from bough.config import Settings
from bough.control.gateway.quota_warnings import QuotaWarnings
from bough.domain import quota
from bough.domain.calendar_month import start_of_month
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.domain.quota import Limit, Limits, PeriodUsage, Warnings
from bough.ids import ProjectId
from bough.store.allowances import BranchStorage
from bough.store.project_limits import LimitedProject
from bough.store.store import Rows


class QuotaJudge:
    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._settings = settings
        self._warnings = QuotaWarnings(vault)

    def needs_change(self, project: LimitedProject, now: datetime) -> bool:
        """Return whether `judge` would write something."""
        return self._judge(project, now) != (project.reached, _known_warnings(project, now))

    async def judge(self, rows: Rows, project_ids: Collection[ProjectId], now: datetime) -> list[ProjectId]:
        """Store which limits the projects have reached, and warn their owners.

        Return the projects whose computes must be stopped, or may start again.
        """
        changed = []
        for project in await rows.project_limits.list_used(project_ids, now):
            reached, warnings = self._judge(project, now)
            if (reached, warnings) != (project.reached, _known_warnings(project, now)):
                await rows.project_limits.save(project.project_id, reached, warnings, start_of_month(now))
                await self._warn(rows, project, warnings, now)
            if reached is not project.reached:
                changed.append(project.project_id)
        return changed

    async def warn_of_size(self, rows: Rows, branch: BranchStorage, percent: int, now: datetime) -> None:
        """Warn the owner that a branch has used so much of the logical size quota, unless that was told before."""
        for project in await rows.project_limits.list_used([branch.project_id], now):
            known, name = _known_warnings(project, now), quota.size_warning(branch.branch_id)
            if percent <= known.get(name, 0):
                return
            warnings = {**known, name: percent}
            await rows.project_limits.save(project.project_id, project.reached, warnings, start_of_month(now))
            plan_quota = self._settings.plan(project.plan).quota.model_dump()
            most = quota.effective_quota(project.settings, plan_quota).get(quota.LOGICAL_SIZE, 0)
            await self._warnings.warn_of_size(rows, project, branch.branch_id, most=most, percent=percent)

    def _judge(self, project: LimitedProject, now: datetime) -> tuple[Limit | None, Warnings]:
        limits, usage = self._limits(project), _usage(project)
        of_branches = {name: each for name, each in _known_warnings(project, now).items() if name not in list(Limit)}
        return quota.find_reached(limits, usage), {**of_branches, **quota.find_warnings(limits, usage)}

    def _limits(self, project: LimitedProject) -> Limits:
        plan = self._settings.plan(project.plan)
        if project.org_id == UNCLAIMED_ORGANIZATION:
            return {Limit.PLAN_TRANSFER: plan.transfer_bytes}
        return quota.build_limits(project.settings, plan.quota.model_dump(), plan.transfer_bytes)

    async def _warn(self, rows: Rows, project: LimitedProject, warnings: Warnings, now: datetime) -> None:
        if project.org_id == UNCLAIMED_ORGANIZATION:
            return  # nobody to tell
        known = _known_warnings(project, now)
        for limit, most in self._limits(project).items():
            percent = warnings.get(limit, 0)
            if percent > known.get(limit, 0):
                await self._warnings.warn(rows, project, limit, most=most, percent=percent, now=now)


def _usage(project: LimitedProject) -> PeriodUsage:
    """The transfer of an unclaimed database is limited until it is claimed, and not by month."""
    if project.org_id == UNCLAIMED_ORGANIZATION:
        return PeriodUsage(bytes_out=project.sent_bytes)
    return project.usage


def _known_warnings(project: LimitedProject, now: datetime) -> Warnings:
    """Warnings of an earlier month say nothing about this one."""
    return project.warnings if project.period_start == start_of_month(now) else {}
