"""The extensions of Postgres that a project can create."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from bough.access import lookup
from bough.access.principal import Principal
from bough.api.dependencies import PrincipalDep, ServicesDep
from bough.api.schemas import IdText, View, to_response
from bough.control.services import Services
from bough.domain.rights import Right
from bough.engine.port import OfferedExtension, OfferedExtensions
from bough.errors import Invalid
from bough.ids import ProjectId

router = APIRouter(tags=["Postgres extensions"])


class ExtensionView(View):
    name: str
    default_version: str
    summary: str
    requires: list[str]
    is_allowed: bool
    is_default: bool
    preload_library: str | None
    preloaded_endpoints: list[str]

    @classmethod
    def of(cls, extension: OfferedExtension, offered: OfferedExtensions) -> "ExtensionView":
        library = extension.preload_library
        return cls(
            name=extension.name,
            default_version=extension.default_version,
            summary=extension.summary,
            requires=list(extension.requires),
            is_allowed=extension.is_allowed,
            is_default=extension.is_default,
            preload_library=library,
            preloaded_endpoints=sorted(each for each, names in offered.preloaded.items() if library in names),
        )


class ExtensionsResponse(View):
    pg_version: int
    version: str
    build_id: str
    extensions: list[ExtensionView]


@router.get("/bough/extensions", response_model=ExtensionsResponse)
async def list_extensions(
    caller: PrincipalDep,
    services: ServicesDep,
    project_id: Annotated[IdText | None, Query()] = None,
    pg_version: Annotated[int | None, Query(ge=14, le=18)] = None,
) -> Response:
    """List the extensions that a project can create, or a new project with this version of Postgres.

    `is_default`: in every build; otherwise the operator added it. `preload_library`: the library that it needs in
    `preload_libraries`, and `preloaded_endpoints` the running endpoints of the project that have preloaded it.
    """
    project = ProjectId(project_id) if project_id else None
    pin, major = await _find_pin(services, caller, project, pg_version)
    offered = await services.engine.list_offered_extensions(pin, project)
    return to_response(
        ExtensionsResponse(
            pg_version=major,
            version=offered.version,
            build_id=offered.build_id,
            extensions=[ExtensionView.of(each, offered) for each in offered.extensions],
        )
    )


async def _find_pin(
    services: Services, caller: Principal, project_id: ProjectId | None, pg_version: int | None
) -> tuple[str, int]:
    """Return the pin of the project, if the caller may read it, or that of a new project."""
    if project_id is not None:
        async with services.store.read() as rows:
            project = await lookup.project(rows, caller, project_id, right=Right.READ)
        return project.install, project.pg_version
    installs, default = services.engine.capabilities().installs, services.settings.postgres_versions[0]
    major = pg_version or default
    if major not in installs:
        offered = ", ".join(map(str, sorted(installs)))
        raise Invalid(f"Postgres {major} is not offered here. Offered: {offered}.")
    return installs[major], major
