"""Apache AGE: graphs and the query language openCypher."""

from bough.postgres.extensions.extension import Extension

# These read any file that the server can read.
_NO_FILES = """
do $$
declare each pg_catalog.regprocedure;
begin
    for each in select oid from pg_catalog.pg_proc
        where proname operator(pg_catalog.=) any ('{load_labels_from_file,load_edges_from_file}'::pg_catalog.name[])
    loop
        execute pg_catalog.format('revoke execute on function %s from public', each);
    end loop;
end $$;
"""


AGE = Extension(
    name="age",
    summary="graphs with openCypher (Apache AGE)",
    package="postgresql-{major}-age",
    majors=frozenset({17, 18}),
    preload_library="age",
    schema="ag_catalog",
    script_additions={"age--*.sql": _NO_FILES},
    review=(
        "Functions in C that store graphs in schemas of the caller. Those that load files from the server are "
        "revoked. Tenants cannot use LOAD, so the library is preloaded."
    ),
)
