"""The routes of our application, for table tests: they fail when someone adds one and forgets."""

from fastapi.routing import iter_route_contexts

from bough.api.app import PREFIX, create_bare_app
from support.contract import Operation

_OURS = ("/docs", "/openapi.json")


def list_routes() -> frozenset[Operation]:
    """Every operation of API v2 that answers, without its description of itself."""
    found = set()
    for route in iter_route_contexts(create_bare_app().routes):
        inner = (route.path or "").removeprefix(PREFIX)
        if route.path != inner and inner not in _OURS:
            found |= {Operation(method, inner.replace(":whole}", "}")) for method in route.methods or ()}
    return frozenset(found)


def list_changing_routes() -> frozenset[str]:
    """The names of the routes that change something."""
    routes = iter_route_contexts(create_bare_app().routes)
    ours = (route for route in routes if (route.path or "").startswith(PREFIX))
    return frozenset(str(route.name) for route in ours if set(route.methods or ()) - {"GET", "HEAD"})


def fill_path(operation: Operation, **given: object) -> str:
    """The operation's path with something plausible in its places."""
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
        "invitation_id": "00000000-0000-4000-8000-000000000000",
    }
    return operation.path.format(**{**values, **given})
