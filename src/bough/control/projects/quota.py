"""Checks against the limits of a plan, counted over all organizations on the plan that one person created.

Creating another organization therefore does not raise the limits. Existing resources above a limit stay.
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
    """Check that the person may create another organization, not counting their personal one."""
    await rows.users.lock(user.id)
    created = [each for each in await rows.organizations.list_created_by(user.id) if each.personal_for is None]
    if len(created) >= plan.organizations:
        raise RuleViolation(
            f"You have created {len(created)} organizations, and your plan allows {plan.organizations}. "
            "Use one of them, or ask the operator for a larger plan.",
            code="ORGANIZATIONS_LIMIT_EXCEEDED",
        )


async def check_project_quota(rows: Rows, organization: Organization, plan: Plan) -> None:
    """Check that the organization may have one more project."""
    org_ids = await _lock_counted_organizations(rows, organization)
    if await rows.projects.count_in_organizations(org_ids) < plan.projects:
        return
    if len(org_ids) == 1:
        who = "The organization has"
    else:
        who = f"The {len(org_ids)} organizations on this plan that one person created have together"
    raise RuleViolation(
        f"{who} {plan.projects} projects, the limit of the plan. Delete one, or change the plan.",
        code="PROJECTS_LIMIT_EXCEEDED",
    )


async def count_projects_with(rows: Rows, organization: Organization, added: Sequence[Project]) -> int:
    """Return how many projects would count against the plan with these added; 0 if all of them count already."""
    org_ids = await _lock_counted_organizations(rows, organization)
    more = sum(project.org_id not in org_ids for project in added)
    return await rows.projects.count_in_organizations(org_ids) + more if more else 0


async def _lock_counted_organizations(rows: Rows, organization: Organization) -> list[OrganizationId]:
    """Lock and return the organizations whose projects count together."""
    await rows.organizations.lock(organization.id)
    if organization.created_by is None:
        return [organization.id]
    # Always lock the organization first: the fixed order prevents deadlocks.
    await rows.users.lock(organization.created_by)
    created = await rows.organizations.list_created_by(organization.created_by)
    return [each.id for each in created if each.plan == organization.plan]
