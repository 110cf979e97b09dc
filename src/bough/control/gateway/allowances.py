"""The limits of a project, and the messages for clients that have reached them.

The messages appear in errors of Postgres, so they are plain ASCII, which is valid in every client encoding.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bough.access.vault import Vault
from bough.byte_sizes import format_in_largest_unit
from bough.config import Plan, Settings
from bough.control.gateway.reached_limits import Explanation, LimitExplainer
from bough.control.platform.claim_links import find_claim_url
from bough.domain import quota
from bough.domain.allowance import Fullness
from bough.domain.branch import Branch
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.domain.project import Project
from bough.domain.quota import Limit
from bough.errors import RuleViolation
from bough.ids import ProjectId
from bough.store.allowances import PlanTerms
from bough.store.store import Rows

STORAGE_CODE = "STORAGE_LIMIT_EXCEEDED"
_FREE_SPACE_STATEMENTS = "BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM"


class AllowancePolicy:
    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault
        self._explainer = LimitExplainer(settings)

    def plan_for(self, terms: PlanTerms) -> Plan:
        return self._settings.plan(terms.plan)

    async def explain_storage_limit(
        self, rows: Rows, terms: PlanTerms, fullness: Fullness, settings: Mapping[str, Any]
    ) -> str | None:
        """Return the hint for clients that cannot write; None if the branch is below its limit."""
        if fullness is Fullness.BELOW_LIMIT:
            return None
        limit_bytes, is_quota = self.storage_limit(terms, settings)
        limit = format_in_largest_unit(limit_bytes)
        claim_url = await self._find_claim_url(rows, terms)
        if claim_url is not None:
            over_limit = f"The database is over the {limit} limit of unclaimed databases."
            if fullness is Fullness.OVERFULL:
                return (
                    f"{over_limit} It is more than 20 % over the limit and cannot be written to until it is claimed: "
                    f"{claim_url}"
                )
            return f"{over_limit} Claim it to raise the limit: {claim_url} - or free space: {_FREE_SPACE_STATEMENTS}."
        if is_quota:
            over_limit = f"The branch has exceeded the {quota.LOGICAL_SIZE_NOUN} of {limit} of its project."
            remedy, until = f"Raise settings.quota.{quota.LOGICAL_SIZE}", "the quota is raised"
        else:
            over_limit = f"The branch is over the {limit} storage limit of the plan {terms.plan}."
            remedy, until = "Choose a larger plan", "the plan is larger"
        if fullness is Fullness.OVERFULL:
            return f"{over_limit} It is more than 20 % over the limit and cannot be written to until {until}."
        return f"{over_limit} {remedy}, or free space: {_FREE_SPACE_STATEMENTS}."

    async def explain_reached_limit(
        self, rows: Rows, terms: PlanTerms, limit: Limit, settings: Mapping[str, Any], now: datetime
    ) -> Explanation:
        """Return why the endpoint accepts no clients, for clients with the right password."""
        claim_url = await self._find_claim_url(rows, terms)
        return self._explainer.explain(terms, limit, settings, now, claim_url=claim_url)

    async def check_limits(self, rows: Rows, project_id: ProjectId, now: datetime) -> None:
        """Raise if the project has reached a limit that stops its computes, before one is started."""
        found = await rows.project_limits.get_reached(project_id)
        if found is not None:
            explained = self._explainer.explain(found, found.reached, found.settings, now)
            raise RuleViolation(explained.sentence, code=found.reached.code)

    def storage_limit(self, terms: PlanTerms, settings: Mapping[str, Any]) -> tuple[int, bool]:
        """Return what a branch may store, and whether this is the quota of its project."""
        plan = self.plan_for(terms)
        return quota.storage_limit(settings, plan.quota.model_dump(), plan.storage_bytes)

    async def _find_claim_url(self, rows: Rows, terms: PlanTerms) -> str | None:
        return await find_claim_url(rows, self._vault, self._settings, terms.project_id)


def is_unclaimed(terms: PlanTerms) -> bool:
    return terms.org_id == UNCLAIMED_ORGANIZATION


def check_writable(branch: Branch, project: Project, plan: Plan) -> None:
    """Raise if the branch is too far over its limit to create roles, databases or read replicas."""
    if branch.fullness is not Fullness.OVERFULL:
        return
    limit_bytes, is_quota = quota.storage_limit(project.settings, plan.quota.model_dump(), plan.storage_bytes)
    limit = format_in_largest_unit(limit_bytes)
    if is_quota:
        raise RuleViolation(
            f"The branch {branch.name!r} has far exceeded the {quota.LOGICAL_SIZE_NOUN} of {limit} of its project, so "
            f"it cannot be changed. Raise settings.quota.{quota.LOGICAL_SIZE} of the project; 0 removes the limit.",
            code=quota.LOGICAL_SIZE_CODE,
        )
    raise RuleViolation(
        f"The branch {branch.name!r} is far over the {limit} storage limit of its plan, "
        "so it cannot be changed. Choose a larger plan, or transfer the project to an organization that has one.",
        code=STORAGE_CODE,
    )
