"""Is it well? For people, load balancers and Prometheus."""

from fastapi import APIRouter, Depends, Response

import bough
from bough.api import compute_metrics, metrics
from bough.api.given import PartsGiven, check_reads_metrics
from bough.api.shapes import View, show
from bough.control.parts import Parts
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
async def healthz(given: PartsGiven) -> Response:
    """Answers 200 when the store answers and the volumes are there."""
    seen = await given.engine.observe()
    able = given.engine.capabilities()
    health = Health(
        status="ok",
        version=bough.__version__,
        computes_running=len(seen.running),
        driver=able.driver,
        isolation=able.isolation,
        limits=able.limits,
        accepts_new=able.refuses_new is None,
        storage_free_bytes=seen.free_bytes,
        storage_total_bytes=seen.total_bytes,
        **await _counts(given),
    )
    return show(health)


@router.get("/metrics", response_class=Response, dependencies=[Depends(check_reads_metrics)])
async def prometheus(given: PartsGiven) -> Response:
    """Counters and gauges in Prometheus's text form."""
    picture = await compute_metrics.look(given)
    counts = await _counts(given)
    if picture.observed is not None:
        counts["computes_running"] = len(picture.observed.running)
    text = metrics.text(counts, compute_metrics.families(given, picture))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _counts(given: Parts) -> dict[str, int]:
    async with given.store.read() as rows:
        return {
            "projects": await rows.projects.count(),
            "operations_open": await rows.operations.count_open(),
            "operations_set_aside": await rows.operations.count_set_aside(crashes.LIMIT),
        }
