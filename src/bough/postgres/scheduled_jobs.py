"""Scheduled jobs (pg_cron): which database has them, and on which branches they run."""

from collections.abc import Collection

LIBRARY = "pg_cron"


def build_settings(libraries: Collection[str], *, database: str, is_copy: bool) -> dict[str, str]:
    """Return the parameters of a compute that preloads these libraries, which the tenant may override.

    A copy of a branch has its jobs, too. They would repeat the work of the first one, such as sending messages, so they
    run on the copy only when its owner enables them.
    """
    if LIBRARY not in libraries:
        return {}
    return {"cron.database_name": database, "cron.launch_active_jobs": "off" if is_copy else "on"}
