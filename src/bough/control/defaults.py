"""Default names, sizes and limits for values that the caller omits."""

from typing import Any

PROVISIONER = "local"
CREATION_SOURCE = "api"

HISTORY_RETENTION_SECONDS = 86_400
MIN_CU = 0.25
MAX_CU = 0.25
SUSPEND_TIMEOUT_SECONDS = 0

PROJECT_SETTINGS: dict[str, Any] = {
    "allowed_ips": {"ips": [], "protected_branches_only": False},
    "enable_logical_replication": False,
    "block_public_connections": False,
    "block_vpc_connections": False,
    "hipaa": False,
}
