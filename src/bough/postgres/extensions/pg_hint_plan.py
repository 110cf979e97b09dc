"""pg_hint_plan: hints for the planner in comments."""

from bough.postgres.extensions.extension import Extension, LibraryChange

# Whatever session plans a query would read the hint table, also the script of a trusted extension, which runs as a
# superuser. A view with the name of the table could then call a function of the tenant.
_NO_HINT_TABLE = LibraryChange(
    library="pg_hint_plan",
    pattern=rb"SELECT hints +FROM hint_plan\.hints [^\0]+",
    replacement=b"SELECT null::pg_catalog.text WHERE $1 IS NULL AND $2 IS NULL",
)


PG_HINT_PLAN = Extension(
    name="pg_hint_plan",
    summary="planner hints in comments",
    package="postgresql-{major}-pg-hint-plan",
    majors=frozenset({17, 18}),
    is_in_default_build=True,
    preload_library="pg_hint_plan",
    schema="hint_plan",
    library_changes=(_NO_HINT_TABLE,),
    tenant_tables=("hints",),  # texts of queries
    review=(
        "Hints in comments affect only plans. The hint table is switched off in the library, because superusers "
        "would read it, too."
    ),
)
