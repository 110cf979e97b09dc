"""What a project may store and transfer, by the plan of its organization; and what those are told who used it up.

Clients read it in an error of Postgres, so the words are plain ASCII, whatever their encoding is.
"""

from datetime import datetime

from bough.access.vault import Vault
from bough.config import Plan, Settings
from bough.control.platform.claim_links import find_claim_url
from bough.domain import allowance
from bough.domain.allowance import Fullness, TransferPeriod, format_bytes
from bough.domain.branch import Branch
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
        """What helps somebody who cannot write; None when there is room."""
        if fullness is Fullness.BELOW_LIMIT:
            return None
        limit = format_bytes(self.plan_for(terms).storage_bytes)
        claim = await self._find_claim_url(rows, terms)
        if claim is not None:
            held = f"The database holds more than the {limit} that an unclaimed one may have."
            if fullness is Fullness.OVERFULL:
                return f"{held} It is so far over it that nothing can be written until it is claimed: {claim}"
            return f"{held} Claim it to have more: {claim} - or make room: {_FREE_SPACE_STATEMENTS}."
        held = f"The branch holds more than the {limit} that the plan {terms.plan} allows."
        if fullness is Fullness.OVERFULL:
            return f"{held} It is so far over it that nothing can be written until the project has a larger plan."
        return f"{held} Choose a larger plan, or make room: {_FREE_SPACE_STATEMENTS}."

    async def explain_transfer_limit(self, rows: Rows, terms: PlanTerms, now: datetime) -> str:
        """Why nobody is let in, for somebody who proved to be let in otherwise."""
        claim = await self._find_claim_url(rows, terms)
        if claim is None:
            return self._transfer_limit_message(terms, now)
        limit = format_bytes(self.plan_for(terms).transfer_bytes)
        return f"This database has transferred the {limit} that an unclaimed one may. Claim it to go on: {claim}"

    async def check_transfer_limit(self, rows: Rows, project_id: ProjectId, now: datetime) -> None:
        """Before a compute is started."""
        found = await rows.allowances.get_terms_if_over_limit(project_id)
        if found is not None:
            raise RuleViolation(self._transfer_limit_message(found, now), code=TRANSFER_CODE)

    def _transfer_limit_message(self, terms: PlanTerms, now: datetime) -> str:
        limit = format_bytes(self.plan_for(terms).transfer_bytes)
        if is_unclaimed(terms):
            return f"This database has transferred the {limit} that an unclaimed one may. Claim it to go on."
        until = allowance.start_of_next_month(now).isoformat().replace("+00:00", "Z")
        return (
            f"The project has transferred the {limit} that the plan {terms.plan} allows in a month, which ends at "
            f"{until}. Wait until then, or choose a larger plan."
        )

    async def _find_claim_url(self, rows: Rows, terms: PlanTerms) -> str | None:
        return await find_claim_url(rows, self._vault, self._settings, terms.project_id)


def is_unclaimed(terms: PlanTerms) -> bool:
    return terms.org_id == UNCLAIMED_ORGANIZATION


def check_writable(branch: Branch, plan: Plan) -> None:
    """Roles, databases and read replicas are made in a Postgres that writes."""
    if branch.fullness is Fullness.OVERFULL:
        raise RuleViolation(
            f"The branch {branch.name!r} holds far more than the {format_bytes(plan.storage_bytes)} that its "
            "plan allows, "
            "so nothing can be changed in it. Choose a larger plan, or transfer the project to an organization that "
            "has one.",
            code=STORAGE_CODE,
        )


async def start_transfer_period(rows: Rows, project_id: ProjectId, now: datetime) -> None:
    """From now on what it transfers counts anew, as after a claim."""
    found = await rows.allowances.get_transfer(project_id)
    if found is not None:
        await rows.allowances.save_period(
            TransferPeriod(project_id=project_id, began_at=now, bytes_before=found.transferred_bytes)
        )
