"""The libraries that the computes of a project can preload."""

from fastapi import APIRouter, Response

from bough.api.dependencies import ReadableProject, ServicesDep
from bough.api.schemas import View, to_response
from bough.engine.port import OfferedExtensions
from bough.postgres.extensions.catalog import PRELOADABLE, PreloadableLibrary

router = APIRouter(tags=["Project"])


class AvailablePreloadLibraryView(View):
    library_name: str
    description: str
    is_default: bool
    is_experimental: bool
    version: str

    @classmethod
    def of(cls, library: PreloadableLibrary, offered: OfferedExtensions) -> "AvailablePreloadLibraryView":
        """A library without an extension has the version of Postgres."""
        versions = {each.name: each.default_version for each in offered.extensions}
        return cls(
            library_name=library.library,
            description=library.summary,
            is_default=library.is_default,
            is_experimental=False,
            version=versions.get(library.extension_name, offered.version),
        )


class AvailablePreloadLibrariesResponse(View):
    libraries: list[AvailablePreloadLibraryView]


@router.get("/projects/{project_id}/available_preload_libraries", response_model=AvailablePreloadLibrariesResponse)
async def get_available_preload_libraries(project: ReadableProject, services: ServicesDep) -> Response:
    """List the libraries that `preload_libraries` can name in the settings of the project and its endpoints.

    `is_default`: computes preload it unless `use_defaults` or `enabled_libraries` say otherwise.
    """
    offered = await services.engine.list_offered_extensions(project.install, project.id)
    views = [AvailablePreloadLibraryView.of(each, offered) for each in PRELOADABLE if each.library in offered.libraries]
    return to_response(AvailablePreloadLibrariesResponse(libraries=sorted(views, key=lambda view: view.library_name)))
