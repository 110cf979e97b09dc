"""Connection URIs: for a new project, and for any role and database of a branch."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from bough.api.dependencies import ConnectableProject, ContextDep
from bough.api.schemas import IdText, Text, View, to_response
from bough.control.endpoints import connection_uri as control_connection_uri
from bough.domain.connection_uri import build_connection_uri
from bough.domain.endpoint import Endpoint, EndpointHosts
from bough.ids import BranchId, EndpointId

router = APIRouter(tags=["Project"])


class ConnectionParameters(View):
    database: str
    password: str
    role: str
    host: str
    pooler_host: str


class ConnectionDetails(View):
    connection_uri: str
    connection_parameters: ConnectionParameters

    @classmethod
    def of(
        cls, endpoint: Endpoint, region_id: str, hosts: EndpointHosts, *, role: str, password: str, database: str
    ) -> "ConnectionDetails":
        host = hosts.direct_host(endpoint.id, region_id)
        return cls(
            connection_uri=build_connection_uri(role=role, password=password, host=host, database=database),
            connection_parameters=ConnectionParameters(
                database=database,
                password=password,
                role=role,
                host=host,
                pooler_host=hosts.pooled_host(endpoint.id, region_id),
            ),
        )


class ConnectionUriResponse(View):
    uri: str


@router.get("/projects/{project_id}/connection_uri", response_model=ConnectionUriResponse)
async def get_connection_uri(
    project: ConnectableProject,
    context: ContextDep,
    database_name: Annotated[Text, Query()],
    role_name: Annotated[Text, Query()],
    branch_id: Annotated[IdText | None, Query()] = None,
    endpoint_id: Annotated[IdText | None, Query()] = None,
    pooled: Annotated[bool, Query()] = False,
) -> Response:
    """Get the connection URI for a role and a database, by default on the read-write endpoint of the default branch."""
    uri = await control_connection_uri.build_connection_uri(
        context,
        project,
        branch_id=BranchId(branch_id) if branch_id else None,
        endpoint_id=EndpointId(endpoint_id) if endpoint_id else None,
        role_name=role_name,
        database_name=database_name,
        pooled=pooled,
    )
    return to_response(ConnectionUriResponse(uri=uri))
