"""Projects of instant databases that nobody has claimed: what to request, and the context that creates them."""

from bough.access.principal import Principal, build_memberships
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.projects.plan import RequestedProject
from bough.control.services import Services
from bough.domain.api_key import KeyKind
from bough.domain.instant_database import PG_VERSION, REGION, UNCLAIMED_ORGANIZATION
from bough.domain.user import OPERATOR
from bough.errors import Internal


def plan_instant_project(*, logical_replication: bool = False) -> RequestedProject:
    """Return the request for the project of an instant database."""
    return RequestedProject(
        org_id=UNCLAIMED_ORGANIZATION,
        region_id=REGION,
        pg_version=PG_VERSION,
        settings={"enable_logical_replication": True} if logical_replication else {},
    )


async def create_unclaimed_context(services: Services, audit: AuditRecord) -> Context:
    """Return a context that acts for the organization of unclaimed databases, without an account."""
    async with services.store.read() as rows:
        organization = await rows.organizations.get(UNCLAIMED_ORGANIZATION)
    if organization is None:
        raise Internal("The organization of unclaimed databases does not exist.")
    principal = Principal(
        kind=KeyKind.ORGANIZATION,
        key_id=None,
        name="",
        user_id=OPERATOR,
        memberships=build_memberships([(organization, None)]),
    )
    return Context(services=services, principal=principal, audit=audit)
