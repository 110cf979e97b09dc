"""What the page of a claim shows to whoever looks at it: how far it has come, and where the database may go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bough import clock
from bough.access.principal import Principal
from bough.config import Plan, Settings
from bough.control.instant import claims
from bough.control.instant.claims import Claimable
from bough.domain.instant_database import CLAIM_DURATION, InstantStatus
from bough.domain.organization import Organization
from bough.domain.rights import ORG_RIGHT_ROLES, OrgRight
from bough.ids import InstantId
from bough.pages import return_paths
from bough.pages.page_request import PageRequest

Stage = Literal["open", "choosing", "with another", "done", "claimed by another"]
MAX_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlan:
    """The limits that come with some of the organizations."""

    plan: Plan
    organizations: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownClaim:
    stage: Stage  # as the looker sees it
    claimable: Claimable
    status: str
    region: str
    names: str  # of its databases
    plan: Plan  # that limits it now
    choices: Sequence[Organization]  # the looker's own that may have it
    plans: Sequence[ShownPlan]
    owner: str  # the organization that has it, if it is one of the looker's

    @property
    def path(self) -> str:
        return return_paths.claim_path(self.claimable.id)

    @property
    def minutes(self) -> int:
        return round(CLAIM_DURATION.total_seconds() / 60)


async def read(request: PageRequest, instant_id: InstantId) -> ShownClaim:
    found = await claims.load_claimable(request.services, request.client, instant_id)
    settings, looker = request.services.settings, request.signed_in_user.principal if request.signed_in_user else None
    stage = _stage(found, looker)
    choices = _choices(looker) if looker and stage == "choosing" else []
    region = settings.region(found.project.region_id)
    return ShownClaim(
        stage=stage,
        claimable=found,
        status=found.database.status(clock.now()),
        region=region.name if region else found.project.region_id,
        names=_listed(found.database_names),
        plan=settings.plan(found.owner.plan),
        choices=choices,
        plans=_plans(settings, choices),
        owner=found.owner.name if looker and found.owner.id in looker.memberships else "",
    )


def _stage(found: Claimable, looker: Principal | None) -> Stage:
    user_id, database = looker.user_id if looker else None, found.database
    match database.status(clock.now()):
        case InstantStatus.CLAIMED:
            return "done" if database.claimed_by == user_id else "claimed by another"
        case InstantStatus.CLAIMING:
            return "choosing" if database.claiming_by == user_id else "with another"
        case InstantStatus.UNCLAIMED:
            return "open"


def _choices(looker: Principal) -> list[Organization]:
    """Their own comes first."""
    may = [
        each.organization
        for each in looker.memberships.values()
        if each.role in ORG_RIGHT_ROLES[OrgRight.CREATE_PROJECTS]
    ]
    return sorted(may, key=lambda each: (each.personal_for != looker.user_id, each.name.casefold()))


def _plans(settings: Settings, choices: Sequence[Organization]) -> list[ShownPlan]:
    named: dict[str, list[str]] = {}
    for organization in choices:
        named.setdefault(organization.plan, []).append(organization.name)
    return [ShownPlan(plan=settings.plan(plan), organizations=names) for plan, names in named.items()]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
