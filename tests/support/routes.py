"""Lists the routes of the application, for tests that fail when a new route is missing in a table."""

from fastapi.routing import iter_route_contexts

from bough.api.app import PREFIX, create_bare_app
from support.contract import ContractOperation

_DOCUMENTATION_PATHS = ("/docs", "/openapi.json")


def list_routes() -> frozenset[ContractOperation]:
    """Return every operation of API v2 except the documentation."""
    operations = set()
    for route in iter_route_contexts(create_bare_app().routes):
        path = (route.path or "").removeprefix(PREFIX)
        if route.path != path and path not in _DOCUMENTATION_PATHS:
            operations |= {ContractOperation(method, path.replace(":whole}", "}")) for method in route.methods or ()}
    return frozenset(operations)


def list_changing_routes() -> frozenset[str]:
    """Return the names of the routes that change something."""
    routes = iter_route_contexts(create_bare_app().routes)
    api_routes = (route for route in routes if (route.path or "").startswith(PREFIX))
    return frozenset(str(route.name) for route in api_routes if set(route.methods or ()) - {"GET", "HEAD"})


def fill_path(operation: ContractOperation, **parameters: object) -> str:
    """Return the path of the operation with plausible parameters."""
    values = {
        "endpoint_id": "ep-none",
        "project_id": "quiet-sea-12345678",
        "operation_id": "00000000-0000-4000-8000-000000000000",
        "branch_id": "br-none",
        "snapshot_id": "snap-none",
        "role_name": "nobody",
        "database_name": "nothing",
        "key_id": 0,
        "user_id": "00000000-0000-4000-8000-000000000000",
        "org_id": "org-none",
        "source_org_id": "org-none",
        "permission_id": "00000000-0000-4000-8000-000000000000",
        "request_id": "00000000-0000-4000-8000-000000000000",
        "member_id": "00000000-0000-4000-8000-000000000000",
        "handle": "1-1-1",
        "invitation_id": "00000000-0000-4000-8000-000000000000",
    }
    return operation.path.format(**{**values, **parameters})
