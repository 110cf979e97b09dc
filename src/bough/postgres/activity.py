"""The query that tells whether clients of a server are active."""

from bough.postgres import RESERVED_PREFIX

# A session whose state is null is still starting and counts as busy. Sessions of the platform do not count.
IS_BUSY = f"""
    select exists (
        select from pg_catalog.pg_stat_activity
         where pid <> pg_catalog.pg_backend_pid()
           and not coalesce(pg_catalog.starts_with(usename::text, '{RESERVED_PREFIX}'), false)
           and (backend_type = 'walsender' or backend_type = 'client backend' and state is distinct from 'idle')
    )
"""
