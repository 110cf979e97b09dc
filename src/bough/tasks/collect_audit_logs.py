"""Collects what audited computes log, before their ordinary logs are rotated."""

from bough.engine.port import AuditLogEngine


class CollectAuditLogs:
    interval = 2.0

    def __init__(self, engine: AuditLogEngine) -> None:
        self._engine = engine

    async def run(self) -> str:
        count = await self._engine.collect_audit_logs()
        return f"collected {count} audited statements" if count else ""
