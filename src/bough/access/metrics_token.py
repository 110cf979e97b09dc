"""The token with which a monitoring system reads `/metrics`, and which opens nothing else: `keys/metrics`."""

import hmac
import secrets

from bough.access.vault import load_or_create_secret
from bough.config import Settings


def load_metrics_token(settings: Settings) -> str:
    """Made at the first call."""
    return load_or_create_secret(settings.keys / "metrics", secrets.token_urlsafe(32).encode()).decode().strip()


def is_metrics_token(settings: Settings, token: str) -> bool:
    return hmac.compare_digest(token.encode("latin-1", "replace"), load_metrics_token(settings).encode())
