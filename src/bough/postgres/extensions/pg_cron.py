"""pg_cron: runs statements at set times."""

from bough.postgres.extensions.extension import Extension

# The extension stores jobs and their results as its owner, who is the tenant, while its tables belong to the superuser.
# The owner could write any name into `username`, so a trigger accepts only roles that the session may become. It also
# runs for rows that a subscription brings.
_JOBS = """
grant usage on schema cron to @extowner@ with grant option;
grant select, insert, update, delete on cron.job to @extowner@;
grant usage, select, update on sequence cron.jobid_seq to @extowner@;
create function cron.check_username() returns pg_catalog.trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    if not pg_catalog.pg_has_role(session_user, new.username, 'member') then
        raise insufficient_privilege using message = pg_catalog.format('role %I may not run jobs as %I',
            session_user, new.username);
    end if;
    if pg_catalog.current_setting('cron.launch_active_jobs', true) operator(pg_catalog.=) 'off' then
        raise warning using message = 'jobs do not run on this copy of a branch',
            hint = 'Set cron.launch_active_jobs to on in pg_settings of the endpoint to run them.';
    end if;
    return new;
end $$;
create trigger check_username before insert or update on cron.job
    for each row execute function cron.check_username();
alter table cron.job enable always trigger check_username;
"""
_RESULTS = """
grant select, insert, update, delete on cron.job_run_details to @extowner@;
grant usage, select, update on sequence cron.runid_seq to @extowner@;
"""
_FUNCTIONS = """
grant execute on all functions in schema cron to @extowner@ with grant option;
"""

PG_CRON = Extension(
    name="pg_cron",
    summary="runs statements at set times",
    package="postgresql-{major}-cron",
    majors=frozenset({17, 18}),  # the version for 15 could not leave jobs out on copies of a branch
    is_in_default_build=True,
    preload_library="pg_cron",
    settings={
        "cron.enable_superuser_jobs": "off",
        "cron.use_background_workers": "on",
    },
    script_additions={
        "pg_cron--1.0.sql": _JOBS,
        "pg_cron--1.2--1.3.sql": _RESULTS,
        "pg_cron--1.3--1.4.sql": _FUNCTIONS,
    },
    tenant_tables=("job", "job_run_details"),  # statements of the tenant, and what they returned
    review=(
        "Jobs run in background workers as the role that scheduled them; jobs of superusers are off. The tables belong "
        "to the superuser, and a trigger refuses jobs of other roles."
    ),
)
