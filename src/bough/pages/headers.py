"""Security headers of all pages: no scripts, frames, external resources or caching."""

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
_SECURITY_HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    # URLs contain secrets, so other sites must not receive the referrer. With `no-referrer`, browsers would omit the
    # origin from the forms of these pages too.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_YEAR = 365 * 86400


def add_security_headers(response: Response, settings: Settings) -> None:
    response.headers.update(_SECURITY_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    if is_served_over_https(settings):
        response.headers["Strict-Transport-Security"] = f"max-age={_YEAR}"


def is_served_over_https(settings: Settings) -> bool:
    """Whether the public URL uses HTTPS."""
    return settings.public_url.lower().startswith("https://")
