"""The storage and transfer limits of a project's plan, and the messages for clients that have reached them.

The messages appear in errors of Postgres, so they are plain ASCII, which is valid in every client encoding.
"""

from datetime import datetime

from bough.access.vault import Vault
from bough.byte_sizes import format_in_largest_unit
from bough.config import Plan, Settings
from bough.control.platform.claim_links import find_claim_url
from bough.domain.allowance import DataTransferPeriod, Fullness
from bough.domain.branch import Branch
from bough.domain.calendar_month import start_of_next_month
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.errors import RuleViolation
from bough.ids import ProjectId
from bough.store.allowances import PlanTerms
from bough.store.store import Rows

STORAGE_CODE = "STORAGE_LIMIT_EXCEEDED"
TRANSFER_CODE = "DATA_TRANSFER_LIMIT_EXCEEDED"
_FREE_SPACE_STATEMENTS = "BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM"


class AllowancePolicy:
    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def plan_for(self, terms: PlanTerms) -> Plan:
        return self._settings.plan(terms.plan)

    async def explain_storage_limit(self, rows: Rows, terms: PlanTerms, fullness: Fullness) -> str | None:
        """Return the hint for clients that cannot write; None if the branch is below its limit."""
        if fullness is Fullness.BELOW_LIMIT:
            return None
        limit = format_in_largest_unit(self.plan_for(terms).storage_bytes)
        claim_url = await self._find_claim_url(rows, terms)
        if claim_url is not None:
            over_limit = f"The database is over the {limit} limit of unclaimed databases."
            if fullness is Fullness.OVERFULL:
                return (
                    f"{over_limit} It is more than 20 % over the limit and cannot be written to until it is claimed: "
                    f"{claim_url}"
                )
            return f"{over_limit} Claim it to raise the limit: {claim_url} - or free space: {_FREE_SPACE_STATEMENTS}."
        over_limit = f"The branch is over the {limit} storage limit of the plan {terms.plan}."
        if fullness is Fullness.OVERFULL:
            return (
                f"{over_limit} It is more than 20 % over the limit and cannot be written to until the plan is larger."
            )
        return f"{over_limit} Choose a larger plan, or free space: {_FREE_SPACE_STATEMENTS}."

    async def explain_transfer_limit(self, rows: Rows, terms: PlanTerms, now: datetime) -> str:
        """Return why the endpoint accepts no clients, for clients with the right password."""
        claim_url = await self._find_claim_url(rows, terms)
        if claim_url is None:
            return self._transfer_limit_message(terms, now)
        limit = format_in_largest_unit(self.plan_for(terms).transfer_bytes)
        return (
            f"This database has reached the {limit} transfer limit of unclaimed databases. Claim it to continue: "
            f"{claim_url}"
        )

    async def check_transfer_limit(self, rows: Rows, project_id: ProjectId, now: datetime) -> None:
        """Raise if the project may not transfer more, before its compute is started."""
        found = await rows.allowances.get_terms_if_over_limit(project_id)
        if found is not None:
            raise RuleViolation(self._transfer_limit_message(found, now), code=TRANSFER_CODE)

    def _transfer_limit_message(self, terms: PlanTerms, now: datetime) -> str:
        limit = format_in_largest_unit(self.plan_for(terms).transfer_bytes)
        if is_unclaimed(terms):
            return f"This database has reached the {limit} transfer limit of unclaimed databases. Claim it to continue."
        until = start_of_next_month(now).isoformat().replace("+00:00", "Z")
        return (
            f"The project has transferred the {limit} that the plan {terms.plan} allows per month. The month ends at "
            f"{until}. Wait until then, or choose a larger plan."
        )

    async def _find_claim_url(self, rows: Rows, terms: PlanTerms) -> str | None:
        return await find_claim_url(rows, self._vault, self._settings, terms.project_id)


def is_unclaimed(terms: PlanTerms) -> bool:
    return terms.org_id == UNCLAIMED_ORGANIZATION


def check_writable(branch: Branch, plan: Plan) -> None:
    """Raise if the branch is too far over its limit to create roles, databases or read replicas."""
    if branch.fullness is Fullness.OVERFULL:
        limit = format_in_largest_unit(plan.storage_bytes)
        raise RuleViolation(
            f"The branch {branch.name!r} is far over the {limit} storage limit of its plan, "
            "so it cannot be changed. Choose a larger plan, or transfer the project to an organization that has one.",
            code=STORAGE_CODE,
        )


async def start_transfer_period(rows: Rows, project_id: ProjectId, now: datetime) -> None:
    """Start a new transfer period now, such as after a claim."""
    found = await rows.allowances.get_data_transfer(project_id)
    if found is not None:
        await rows.allowances.save_period(
            DataTransferPeriod(project_id=project_id, began_at=now, bytes_before=found.transferred_bytes)
        )
