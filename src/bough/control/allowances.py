"""What a project may store and transfer, by the plan of its organization; and what those are told who used it up.

Clients read it in an error of Postgres, so the words are plain ASCII, whatever their encoding is.
"""

from datetime import datetime

from bough.access.vault import Vault
from bough.config import Plan, Settings
from bough.control.claim_links import claim_url_of
from bough.domain import allowance
from bough.domain.allowance import Fullness, TransferPeriod, in_words
from bough.domain.branch import Branch
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.errors import RuleBroken
from bough.ids import ProjectId
from bough.store.allowances import Terms
from bough.store.store import Rows

STORAGE_CODE = "STORAGE_LIMIT_EXCEEDED"
TRANSFER_CODE = "DATA_TRANSFER_LIMIT_EXCEEDED"
_MAKE_ROOM = "BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM"


class Allowances:
    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def plan(self, terms: Terms) -> Plan:
        return self._settings.plan(terms.plan)

    async def hint(self, rows: Rows, terms: Terms, fullness: Fullness) -> str | None:
        """What helps somebody who cannot write; None when there is room."""
        if fullness is Fullness.ROOM:
            return None
        limit = in_words(self.plan(terms).storage_bytes)
        claim = await self._claim(rows, terms)
        if claim is not None:
            held = f"The database holds more than the {limit} that an unclaimed one may have."
            if fullness is Fullness.OVERFULL:
                return f"{held} It is so far over it that nothing can be written until it is claimed: {claim}"
            return f"{held} Claim it to have more: {claim} - or make room: {_MAKE_ROOM}."
        held = f"The branch holds more than the {limit} that the plan {terms.plan} allows."
        if fullness is Fullness.OVERFULL:
            return f"{held} It is so far over it that nothing can be written until the project has a larger plan."
        return f"{held} Choose a larger plan, or make room: {_MAKE_ROOM}."

    async def refusal(self, rows: Rows, terms: Terms, now: datetime) -> str:
        """Why nobody is let in, for somebody who proved to be let in otherwise."""
        claim = await self._claim(rows, terms)
        if claim is None:
            return self._transferred_all(terms, now)
        limit = in_words(self.plan(terms).transfer_bytes)
        return f"This database has transferred the {limit} that an unclaimed one may. Claim it to go on: {claim}"

    async def check_transfers(self, rows: Rows, project_id: ProjectId, now: datetime) -> None:
        """Before a compute is started."""
        found = await rows.allowances.terms_when_over(project_id)
        if found is not None:
            raise RuleBroken(self._transferred_all(found, now), code=TRANSFER_CODE)

    def _transferred_all(self, terms: Terms, now: datetime) -> str:
        limit = in_words(self.plan(terms).transfer_bytes)
        if is_unclaimed(terms):
            return f"This database has transferred the {limit} that an unclaimed one may. Claim it to go on."
        until = allowance.month_after(now).isoformat().replace("+00:00", "Z")
        return (
            f"The project has transferred the {limit} that the plan {terms.plan} allows in a month, which ends at "
            f"{until}. Wait until then, or choose a larger plan."
        )

    async def _claim(self, rows: Rows, terms: Terms) -> str | None:
        return await claim_url_of(rows, self._vault, self._settings, terms.project_id)


def is_unclaimed(terms: Terms) -> bool:
    return terms.org_id == UNCLAIMED_ORGANIZATION


def check_takes_changes(branch: Branch, plan: Plan) -> None:
    """Roles, databases and read replicas are made in a Postgres that writes."""
    if branch.fullness is Fullness.OVERFULL:
        raise RuleBroken(
            f"The branch {branch.name!r} holds far more than the {in_words(plan.storage_bytes)} that its plan allows, "
            "so nothing can be changed in it. Choose a larger plan, or transfer the project to an organization that "
            "has one.",
            code=STORAGE_CODE,
        )


async def begin_period(rows: Rows, project_id: ProjectId, now: datetime) -> None:
    """From now on what it transfers counts anew, as after a claim."""
    found = await rows.allowances.transferred(project_id)
    if found is not None:
        await rows.allowances.put_period(TransferPeriod(project_id=project_id, began_at=now, bytes_before=found.moved))
