"""Is it well? For people, load balancers and Prometheus."""

from fastapi import APIRouter, Response

import bough
from bough.api import metrics
from bough.api.given import Parts, PartsGiven
from bough.api.shapes import View, show

router = APIRouter(tags=["Health"])


class Health(View):
    status: str
    version: str
    projects: int
    computes_running: int
    operations_open: int


async def _counts(given: Parts) -> dict[str, int]:
    seen = await given.engine.observe()
    async with given.store.read() as rows:
        return {
            "projects": await rows.projects.count(),
            "computes_running": len(seen.running),
            "operations_open": await rows.operations.count_open(),
        }


@router.get("/healthz", response_model=Health)
async def healthz(given: PartsGiven) -> Response:
    """Answers 200 when the store answers."""
    return show(Health(status="ok", version=bough.__version__, **await _counts(given)))


@router.get("/metrics", response_class=Response)
async def prometheus(given: PartsGiven) -> Response:
    """Counters and gauges in Prometheus's text form."""
    return Response(metrics.text(await _counts(given)), media_type="text/plain; version=0.0.4; charset=utf-8")
