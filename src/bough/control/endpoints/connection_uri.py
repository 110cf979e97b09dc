"""Which endpoint, role and password make a connection string."""

from bough.access import lookup
from bough.control.context import Context
from bough.domain import connection_uri
from bough.domain.branch import Branch
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint
from bough.domain.project import Project
from bough.domain.role import Role, password_sealing_purpose
from bough.errors import Invalid, NotFound, PreconditionFailed
from bough.ids import BranchId, EndpointId
from bough.store.store import Rows


async def build_connection_uri(
    context: Context,
    project: Project,
    *,
    branch_id: BranchId | None,
    endpoint_id: EndpointId | None,
    role_name: str,
    database_name: str,
    pooled: bool,
) -> str:
    async with context.services.store.read() as rows:
        branch, endpoint = await _resolve_endpoint(rows, project, branch_id, endpoint_id)
        role = await rows.roles.get(branch.id, role_name)
        if role is None:
            raise NotFound.resource("role")
        if await rows.databases.get(branch.id, database_name) is None:
            raise NotFound.resource("database")
    return _uri(context, project, endpoint, role, database_name, pooled=pooled)


async def build_direct_and_pooled_uris(context: Context, project: Project, database: Database) -> tuple[str, str]:
    """Both, for the owner of a database, on its branch's own endpoint."""
    async with context.services.store.read() as rows:
        _branch, endpoint = await _resolve_endpoint(rows, project, database.branch_id, None)
        role = await rows.roles.get(database.branch_id, database.owner_name)
    if role is None:
        raise NotFound.resource("role")
    direct = _uri(context, project, endpoint, role, database.name, pooled=False)
    return direct, _uri(context, project, endpoint, role, database.name, pooled=True)


def _uri(context: Context, project: Project, endpoint: Endpoint, role: Role, database: str, *, pooled: bool) -> str:
    hosts = context.services.hosts
    host = (hosts.pooled_host if pooled else hosts.direct_host)(endpoint.id, project.region_id)
    password = _password(context, project, role)
    return connection_uri.build_connection_uri(role=role.name, password=password, host=host, database=database)


def _password(context: Context, project: Project, role: Role) -> str:
    if not role.can_login:
        raise PreconditionFailed(f"The role {role.name!r} may not log in, so it has no password.")
    if role.sealed_password is None and project.store_passwords:
        raise PreconditionFailed(
            f"The password of the role {role.name!r} was set with SQL, so it is not known here. "
            "Put it into the host's URI, or reset it."
        )
    if role.sealed_password is None:
        raise PreconditionFailed(
            "This project does not store passwords, so the URI cannot be shown. "
            "Put the password you kept into the host's URI, or reset it."
        )
    return context.services.vault.open(role.sealed_password, password_sealing_purpose(role.branch_id, role.name))


async def _resolve_endpoint(
    rows: Rows, project: Project, branch_id: BranchId | None, endpoint_id: EndpointId | None
) -> tuple[Branch, Endpoint]:
    if endpoint_id is not None:
        endpoint = await lookup.endpoint(rows, project, endpoint_id)
        branch = await lookup.branch(rows, project, endpoint.branch_id)
        if branch_id is not None and branch_id != branch.id:
            raise Invalid(f"The endpoint {endpoint_id} is not on the branch {branch_id}.")
        return branch, endpoint
    if branch_id is not None:
        branch = await lookup.branch(rows, project, branch_id)
    else:
        default = await rows.branches.get_default(project.id)
        if default is None:
            raise NotFound.resource("branch")
        branch = default
    found = await rows.endpoints.get_read_write(branch.id)
    if found is None:
        raise NotFound("The branch has no read-write endpoint. Create one, or name an endpoint_id.")
    return branch, found
