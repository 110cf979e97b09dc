"""The stylesheet and the icon. Their URLs contain a hash of the content, so browsers can cache them."""

import hashlib
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = resources.files("bough.pages") / "static"
_MEDIA_TYPES = {"bough.css": "text/css", "bough.svg": "image/svg+xml"}
_FILES = {name: (_FOLDER / name).read_bytes() for name in _MEDIA_TYPES}
URLS = {
    name.rpartition(".")[2]: f"/static/{name}?{hashlib.sha256(text).hexdigest()[:12]}" for name, text in _FILES.items()
}
_HEADERS = {"Cache-Control": "public, max-age=86400", "X-Content-Type-Options": "nosniff"}


async def _serve(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    return Response(_FILES[name], media_type=_MEDIA_TYPES[name], headers=_HEADERS)


def routes() -> list[Route]:
    return [Route(f"/static/{name}", _serve, name=name) for name in _MEDIA_TYPES]
