"""What is left of a plan, counted over all organizations on it that one person created.

So another organization gives nobody more room than the plan has. Those who have more already keep it.
"""

from collections.abc import Sequence

from bough.config import Plan
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.user import User
from bough.errors import RuleViolation
from bough.ids import OrganizationId
from bough.store.store import Rows


async def check_organization_quota(rows: Rows, user: User, plan: Plan) -> None:
    """One more, besides those that the person created and their personal one."""
    await rows.users.lock(user.id)
    created = [one for one in await rows.organizations.list_created_by(user.id) if one.personal_for is None]
    if len(created) >= plan.organizations:
        raise RuleViolation(
            f"You have created {len(created)} organizations, and your plan allows {plan.organizations}. "
            "Use one of them, or ask the operator for a larger plan.",
            code="ORGANIZATIONS_LIMIT_EXCEEDED",
        )


async def check_project_quota(rows: Rows, organization: Organization, plan: Plan) -> None:
    """One more in the organization."""
    sharing = await _sharing(rows, organization)
    if await rows.projects.count_in_organizations(sharing) < plan.projects:
        return
    if len(sharing) == 1:
        who = "The organization has"
    else:
        who = f"The {len(sharing)} organizations on this plan that one person created have together"
    raise RuleViolation(
        f"{who} {plan.projects} projects, all that the plan allows. Delete one, or change the plan.",
        code="PROJECTS_LIMIT_EXCEEDED",
    )


async def count_projects_with(rows: Rows, organization: Organization, added: Sequence[Project]) -> int:
    """How many projects count for the organization's plan when these have come; 0 when they count already."""
    sharing = await _sharing(rows, organization)
    more = sum(project.org_id not in sharing for project in added)
    return await rows.projects.count_in_organizations(sharing) + more if more else 0


async def _sharing(rows: Rows, organization: Organization) -> list[OrganizationId]:
    """The organizations whose projects count together; nobody else decides on their room meanwhile."""
    await rows.organizations.lock(organization.id)
    if organization.created_by is None:
        return [organization.id]
    # Always after the organization, so that two who wait never wait for each other.
    await rows.users.lock(organization.created_by)
    created = await rows.organizations.list_created_by(organization.created_by)
    return [one.id for one in created if one.plan == organization.plan]
