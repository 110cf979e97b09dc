"""Health and metrics, for people, load balancers and Prometheus."""

from fastapi import APIRouter, Depends, Response

import bough
from bough.api import compute_metrics, metrics
from bough.api.dependencies import ServicesDep, check_metrics_access
from bough.api.schemas import View, to_response
from bough.control.services import Services
from bough.engine.port import Capabilities
from bough.operations import crashes

router = APIRouter(tags=["Health"])


class Health(View):
    status: str
    version: str
    projects: int
    computes_running: int
    operations_open: int
    operations_set_aside: int
    driver: str
    isolation: bool
    limits: str
    accepts_new: bool
    postgres_warnings: list[str]
    storage_free_bytes: int
    storage_total_bytes: int


@router.get("/healthz", response_model=Health)
async def healthz(services: ServicesDep) -> Response:
    """Responds with 200 if the store and the storage of volumes are accessible."""
    observed = await services.engine.observe()
    capabilities = services.engine.capabilities()
    health = Health(
        status="ok",
        version=bough.__version__,
        computes_running=len(observed.running_endpoints),
        driver=capabilities.storage_driver,
        isolation=capabilities.has_isolation,
        limits=capabilities.limits_summary,
        postgres_warnings=await _list_postgres_warnings(services, capabilities),
        accepts_new=capabilities.creation_blocked_reason is None,
        storage_free_bytes=observed.free_bytes,
        storage_total_bytes=observed.total_bytes,
        **await _count_objects(services),
    )
    return to_response(health)


@router.get("/metrics", response_class=Response, dependencies=[Depends(check_metrics_access)])
async def prometheus(services: ServicesDep) -> Response:
    """Counters and gauges in the Prometheus text format."""
    sample = await compute_metrics.sample_computes(services)
    counts = await _count_objects(services)
    if sample.observed is not None:
        counts["computes_running"] = len(sample.observed.running_endpoints)
    text = metrics.render(counts, compute_metrics.build_families(services, sample))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _list_postgres_warnings(services: Services, capabilities: Capabilities) -> list[str]:
    """List what is missing in the builds that new projects get, and in vulnerable ones that other projects use."""
    warnings = list(capabilities.build_warnings)
    if capabilities.vulnerable_builds:
        async with services.store.read() as rows:
            used = await rows.projects.count_by_install()
        warnings += [text for pin, text in capabilities.vulnerable_builds.items() if pin in used]
    return warnings


async def _count_objects(services: Services) -> dict[str, int]:
    async with services.store.read() as rows:
        return {
            "projects": await rows.projects.count(),
            "operations_open": await rows.operations.count_open(),
            "operations_set_aside": await rows.operations.count_set_aside(crashes.MAX_CRASHES),
        }
