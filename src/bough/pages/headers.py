"""What every page tells the browser: no script, no frame, nothing from elsewhere, nothing kept."""

from starlette.responses import Response

from bough.config import Settings

_POLICY = (
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
)
_EVERY = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    # Links have secrets in them, so nobody else learns where one came from. Were we not told either, browsers
    # would leave the origin out of our own forms.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_YEAR = 365 * 86400


def add_security_headers(response: Response, settings: Settings) -> None:
    response.headers.update(_EVERY)
    response.headers.setdefault("Cache-Control", "no-store")
    if is_served_over_https(settings):
        response.headers["Strict-Transport-Security"] = f"max-age={_YEAR}"


def is_served_over_https(settings: Settings) -> bool:
    """Whether people reach us by https."""
    return settings.public_url.lower().startswith("https://")
