"""What clients and callers are told when a project has reached a limit that stops its computes.

The messages appear in errors of Postgres, so they are plain ASCII, which is valid in every client encoding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bough.byte_sizes import format_in_largest_unit
from bough.config import Settings
from bough.domain.calendar_month import start_of_next_month
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.domain.quota import Limit, build_limits
from bough.store.allowances import PlanTerms


@dataclass(frozen=True, slots=True)
class Explanation:
    message: str
    hint: str = ""

    @property
    def sentence(self) -> str:
        """For callers that get only one text."""
        return f"{self.message} {self.hint}".strip()


class LimitExplainer:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def explain(
        self,
        terms: PlanTerms,
        limit: Limit,
        settings: Mapping[str, Any],
        now: datetime,
        *,
        claim_url: str | None = None,
    ) -> Explanation:
        """`claim_url` is None for callers who may not know it."""
        if limit is not Limit.PLAN_TRANSFER:
            return self._explain_quota(terms, limit, settings, now)
        if terms.org_id == UNCLAIMED_ORGANIZATION:
            return self._explain_unclaimed(terms, claim_url)
        amount = format_in_largest_unit(self._settings.plan(terms.plan).transfer_bytes)
        return Explanation(
            f"The project has transferred the {amount} that the plan {terms.plan} allows per month. The month ends at "
            f"{_format(start_of_next_month(now))}. Wait until then, or choose a larger plan."
        )

    def _explain_unclaimed(self, terms: PlanTerms, claim_url: str | None) -> Explanation:
        amount = format_in_largest_unit(self._settings.plan(terms.plan).transfer_bytes)
        target = "." if claim_url is None else f": {claim_url}"
        return Explanation(
            f"This database has reached the {amount} transfer limit of unclaimed databases. "
            f"Claim it to continue{target}"
        )

    def _explain_quota(self, terms: PlanTerms, limit: Limit, settings: Mapping[str, Any], now: datetime) -> Explanation:
        plan = self._settings.plan(terms.plan)
        most = build_limits(settings, plan.quota.model_dump(), plan.transfer_bytes).get(limit, 0)
        until = _format(start_of_next_month(now))
        return Explanation(
            f"The project has exceeded the {limit.noun} of {format_amount(limit, most)}. "
            f"Its computes are suspended until {until}.",
            f"Wait until then, or raise settings.quota.{limit} of the project {terms.project_id}; 0 removes the limit.",
        )


def format_amount(limit: Limit, amount: float) -> str:
    if limit.is_in_seconds:
        return f"{amount:g} seconds" if limit is Limit.ACTIVE_TIME else f"{amount:g} CU-seconds"
    return format_in_largest_unit(round(amount))


def _format(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
