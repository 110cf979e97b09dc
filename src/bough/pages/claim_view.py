"""What the claim page shows: the state of the claim and the organizations to choose from."""

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
    """A plan and the organizations that use it."""

    plan: Plan
    organizations: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownClaim:
    stage: Stage  # from the viewer's point of view
    claimable: Claimable
    status: str
    region: str
    names: str  # of its databases
    plan: Plan  # the current plan
    choices: Sequence[Organization]  # the viewer's organizations in which the viewer can create projects
    plans: Sequence[ShownPlan]
    owner: str  # the organization that owns it, if the viewer is a member

    @property
    def path(self) -> str:
        return return_paths.claim_path(self.claimable.id)

    @property
    def minutes(self) -> int:
        return round(CLAIM_DURATION.total_seconds() / 60)


async def read(request: PageRequest, instant_id: InstantId) -> ShownClaim:
    claimable = await claims.load_claimable(request.services, request.client, instant_id)
    settings, viewer = request.services.settings, request.signed_in_user.principal if request.signed_in_user else None
    stage = _stage(claimable, viewer)
    choices = _choices(viewer) if viewer and stage == "choosing" else []
    region = settings.region(claimable.project.region_id)
    return ShownClaim(
        stage=stage,
        claimable=claimable,
        status=claimable.database.status(clock.now()),
        region=region.name if region else claimable.project.region_id,
        names=_format_names(claimable.database_names),
        plan=settings.plan(claimable.owner.plan),
        choices=choices,
        plans=_plans(settings, choices),
        owner=claimable.owner.name if viewer and claimable.owner.id in viewer.memberships else "",
    )


def _stage(claimable: Claimable, viewer: Principal | None) -> Stage:
    user_id, database = viewer.user_id if viewer else None, claimable.database
    match database.status(clock.now()):
        case InstantStatus.CLAIMED:
            return "done" if database.claimed_by == user_id else "claimed by another"
        case InstantStatus.CLAIMING:
            return "choosing" if database.claiming_by == user_id else "with another"
        case InstantStatus.UNCLAIMED:
            return "open"


def _choices(viewer: Principal) -> list[Organization]:
    """List the personal organization first."""
    allowed = [
        each.organization
        for each in viewer.memberships.values()
        if each.role in ORG_RIGHT_ROLES[OrgRight.CREATE_PROJECTS]
    ]
    return sorted(allowed, key=lambda each: (each.personal_for != viewer.user_id, each.name.casefold()))


def _plans(settings: Settings, choices: Sequence[Organization]) -> list[ShownPlan]:
    names_by_plan: dict[str, list[str]] = {}
    for organization in choices:
        names_by_plan.setdefault(organization.plan, []).append(organization.name)
    return [ShownPlan(plan=settings.plan(plan), organizations=names) for plan, names in names_by_plan.items()]


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
