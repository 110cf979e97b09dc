"""Tells the owner of a project how much of a limit is used: by mail to the admins, and in the audit log."""

from datetime import datetime

from bough.access.vault import Vault
from bough.byte_sizes import format_in_largest_unit
from bough.control.audit import write_platform_record
from bough.control.gateway.reached_limits import format_amount
from bough.control.platform import mail
from bough.domain import quota
from bough.domain.calendar_month import start_of_next_month
from bough.domain.quota import Limit
from bough.ids import BranchId
from bough.store.project_limits import LimitedProject
from bough.store.store import Rows

ACTION = "warn_of_quota"
REQUEST_ID = "enforce-quotas"


class QuotaWarnings:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def warn(
        self, rows: Rows, project: LimitedProject, limit: Limit, *, most: int, percent: int, now: datetime
    ) -> None:
        amount = format_amount(limit, most)
        await _write_record(rows, project, limit=limit.value, percent=percent, amount=amount)
        title = mail.to_single_line(project.name)
        state = f"the {limit.noun} is reached" if percent >= 100 else f"{percent} % of the {limit.noun} is used"
        await self._send(rows, project, f"{title}: {state}", _describe(project, limit, amount, percent, now))

    async def warn_of_size(
        self, rows: Rows, project: LimitedProject, branch_id: BranchId, *, most: int, percent: int
    ) -> None:
        amount = format_in_largest_unit(most)
        await _write_record(
            rows, project, limit=quota.LOGICAL_SIZE, percent=percent, amount=amount, branch_id=branch_id
        )
        title = mail.to_single_line(project.name)
        text = (
            f"The branch {branch_id} of the project {title} ({project.project_id}) has used {percent} % of its "
            f"{quota.LOGICAL_SIZE_NOUN} of {amount}. A branch that has reached it is read-only until rows are "
            "deleted.\n\n"
            f"To raise it, change settings.quota.{quota.LOGICAL_SIZE} of the project; 0 removes the limit.\n"
        )
        await self._send(rows, project, f"{title}: {percent} % of the {quota.LOGICAL_SIZE_NOUN} is used", text)

    async def _send(self, rows: Rows, project: LimitedProject, subject: str, text: str) -> None:
        for admin in await rows.members.list_admins(project.org_id):
            await mail.enqueue_mail(rows, self._vault, admin.email, subject, text)


async def _write_record(rows: Rows, project: LimitedProject, *, branch_id: str = "", **details: str | int) -> None:
    await write_platform_record(
        rows, ACTION, request_id=REQUEST_ID, project_id=project.project_id, resource=branch_id, **details
    )


def _describe(project: LimitedProject, limit: Limit, amount: str, percent: int, now: datetime) -> str:
    name = mail.to_single_line(project.name)
    if percent < 100:
        state = f"has used {percent} % of its {limit.noun} of {amount}. When it is reached, its computes are suspended"
    else:
        state = f"has exceeded the {limit.noun} of {amount}. Its computes are suspended"
    if limit is Limit.PLAN_TRANSFER:
        advice = "A larger plan has a higher limit."
    else:
        advice = f"To raise it, change settings.quota.{limit} of the project; 0 removes the limit."
    return (
        f"The project {name} ({project.project_id}) {state} and accept no connections until the month ends, "
        f"at {start_of_next_month(now):%Y-%m-%d %H:%M} UTC.\n\n{advice}\n"
    )
