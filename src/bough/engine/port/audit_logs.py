"""The port to collect what audited computes log."""

from typing import Protocol


class AuditLogEngine(Protocol):
    """Collect the audited statements of computes."""

    async def collect_audit_logs(self) -> int:
        """Copy what audited computes logged since the last call to their audit logs. Return the number of entries."""
