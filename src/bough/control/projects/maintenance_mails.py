"""Mails about maintenance: one that announces restarts of a project's computes, and one that says what was done."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bough.access.vault import Vault
from bough.config import Settings
from bough.control.platform import mail
from bough.control.projects.maintenance import Outcome
from bough.domain.maintenance import Maintenance
from bough.domain.project import Project
from bough.domain.user import OPERATOR
from bough.store.store import Rows

_ADVICE = (
    "The restart takes some seconds and closes open connections; new ones wait for it. A restart of the endpoint, or a "
    "suspension and a start, before that time makes it unnecessary. `settings.maintenance_window` of the project sets "
    "another time.\n"
)


@dataclass(frozen=True, slots=True)
class MaintenanceMails:
    """Sends to the admins of a project's organization, if there is a mail server."""

    settings: Settings
    vault: Vault

    async def announce(self, rows: Rows, project: Project, plan: Maintenance) -> None:
        lines = [f"  {endpoint}: {_describe(fields)}" for endpoint, fields in sorted(plan.reasons.items())]
        name = mail.to_single_line(project.name)
        text = (
            f"Computes of the project {name} ({project.id}) will be restarted between {_format(plan.scheduled_for)} "
            f"and {_format(plan.ends_at)}:\n\n" + "\n".join(lines) + f"\n\n{_ADVICE}"
        )
        await self._send(rows, project, f"Maintenance of the project {name}", text)

    async def report(self, rows: Rows, project: Project, outcome: Outcome, next_plan: Maintenance) -> None:
        name, failed = mail.to_single_line(project.name), outcome.failed or {}
        text = f"The maintenance of the project {name} ({project.id}) has ended.\n\n"
        text += "".join(f"  {endpoint}: restarted\n" for endpoint in outcome.restarted)
        text += "".join(f"  {endpoint}: {reason}\n" for endpoint, reason in sorted(failed.items()))
        text += "".join(f"  {endpoint}: not restarted\n" for endpoint in outcome.passed_over)
        if next_plan.is_planned:
            text += f"\nThe rest is planned for {_format(next_plan.scheduled_for)}.\n"
        await self._send(rows, project, f"Maintenance of the project {name} has ended", text)

    async def _send(self, rows: Rows, project: Project, subject: str, text: str) -> None:
        """The account of the operator has no address."""
        if not self.settings.smtp_url:
            return
        for admin in await rows.members.list_admins(project.org_id):
            if admin.id != OPERATOR:
                await mail.enqueue_mail(rows, self.vault, admin.email, subject, text)


def _describe(fields: Mapping[str, Any]) -> str:
    parts = []
    if "build" in fields["reasons"]:
        before, after = fields["from_version"], fields["to_version"]
        fixes = ", which fixes known vulnerabilities" if fields.get("fixes_vulnerabilities") else ""
        is_same = before == after
        parts.append(f"another build of Postgres {after}{fixes}" if is_same else f"Postgres {before} → {after}{fixes}")
    if "settings" in fields["reasons"]:
        parts.append(f"settings that apply from its next start: {', '.join(fields.get('settings', ()))}")
    return "; ".join(parts)


def _format(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "-"
