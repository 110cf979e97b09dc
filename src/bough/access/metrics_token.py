"""The token in `keys/metrics`, which gives a monitoring system access to `/metrics` and to nothing else."""

import hmac
import secrets

from bough.access.vault import load_or_create_secret
from bough.config import Settings


def load_metrics_token(settings: Settings) -> str:
    """Return the token. The first call creates it."""
    return load_or_create_secret(settings.keys / "metrics", secrets.token_urlsafe(32).encode()).decode().strip()


def is_metrics_token(settings: Settings, token: str) -> bool:
    return hmac.compare_digest(token.encode("latin-1", "replace"), load_metrics_token(settings).encode())
