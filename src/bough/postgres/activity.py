"""The query that tells whether clients of a server are active."""

from bough.postgres import RESERVED_PREFIX

# A session whose state is null is still starting and counts as busy. Sessions of the platform do not count; neither do
# workers of logical replication. Other workers with a user are those of extensions, such as scheduled jobs.
IS_BUSY = f"""
    select exists (
        select from pg_catalog.pg_stat_activity
         where pid <> pg_catalog.pg_backend_pid()
           and not coalesce(pg_catalog.starts_with(usename::text, '{RESERVED_PREFIX}'), false)
           and case
                   when backend_type = 'walsender' then true
                   when backend_type = 'client backend' then state is distinct from 'idle'
                   when backend_type like 'logical replication%' then false
                   else usename is not null and state = 'active'
               end
    )
"""
