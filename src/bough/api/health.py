"""Is it well? For people, load balancers and Prometheus."""

from fastapi import APIRouter, Depends, Response

import bough
from bough.api import compute_metrics, metrics
from bough.api.dependencies import ServicesDep, check_metrics_access
from bough.api.schemas import View, to_response
from bough.control.services import Services
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
    storage_free_bytes: int
    storage_total_bytes: int


@router.get("/healthz", response_model=Health)
async def healthz(services: ServicesDep) -> Response:
    """Answers 200 when the store answers and the volumes are there."""
    seen = await services.engine.observe()
    able = services.engine.capabilities()
    health = Health(
        status="ok",
        version=bough.__version__,
        computes_running=len(seen.running_endpoints),
        driver=able.storage_driver,
        isolation=able.has_isolation,
        limits=able.limits_summary,
        accepts_new=able.creation_blocked_reason is None,
        storage_free_bytes=seen.free_bytes,
        storage_total_bytes=seen.total_bytes,
        **await _counts(services),
    )
    return to_response(health)


@router.get("/metrics", response_class=Response, dependencies=[Depends(check_metrics_access)])
async def prometheus(services: ServicesDep) -> Response:
    """Counters and gauges in Prometheus's text form."""
    picture = await compute_metrics.sample_computes(services)
    counts = await _counts(services)
    if picture.observed is not None:
        counts["computes_running"] = len(picture.observed.running_endpoints)
    text = metrics.render(counts, compute_metrics.build_families(services, picture))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _counts(given: Services) -> dict[str, int]:
    async with given.store.read() as rows:
        return {
            "projects": await rows.projects.count(),
            "operations_open": await rows.operations.count_open(),
            "operations_set_aside": await rows.operations.count_set_aside(crashes.MAX_CRASHES),
        }
