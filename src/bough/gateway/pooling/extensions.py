"""Extensions whose libraries keep session state that no command of Postgres resets.

Examples are the connections of dblink and the global variables of procedural languages. In a database with such
an extension, a server connection is closed instead of passing to another client. Postgres does not report which
libraries a process has loaded, so the gateway checks the catalog, and repeats this because functions can create
extensions.
"""

from collections.abc import Sequence

from bough.gateway.pooling.statements import encode_query

CHECK_SECONDS = 0.1  # how long a result is valid

# DISCARD ALL resets all state of these. Every other extension counts as stateful.
_STATELESS = """
    adminpack amcheck autoinc bloom btree_gin btree_gist citext cube dict_int dict_xsyn earthdistance file_fdw
    fuzzystrmatch hstore insert_username intagg intarray isn lo ltree moddatetime pageinspect pg_buffercache
    pg_freespacemap pg_prewarm pg_stat_statements pg_surgery pg_trgm pg_visibility pg_walinspect pgcrypto pgrowlocks
    pgstattuple plpgsql refint seg sslinfo tablefunc tcn tsm_system_rows tsm_system_time unaccent uuid-ossp vector xml2
""".split()
_MARK = "extensions"
# An extension without C functions has no library.
_STATEFUL = """
    SELECT FROM pg_catalog.pg_extension e
     WHERE e.extname OPERATOR(pg_catalog.<>) ALL ('{{{stateless}}}'::pg_catalog.name[])
       AND EXISTS (
           SELECT FROM pg_catalog.pg_depend d
             JOIN pg_catalog.pg_proc p ON p.oid = d.objid
             JOIN pg_catalog.pg_language l ON l.oid = p.prolang
            WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid
              AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND l.lanname = 'c'
       )
"""
_QUERY = f"SELECT '{_MARK}', EXISTS ({_STATEFUL.format(stateless=','.join(_STATELESS))})"
# Operators are qualified, because a schema in the search_path may define its own.
CHECK_QUERY = encode_query(" ".join(_QUERY.replace(" = ", " OPERATOR(pg_catalog.=) ").split()).encode())
_ROW_PREFIX = (2).to_bytes(2) + len(_MARK).to_bytes(4) + _MARK.encode()


def parse_keeps_state(rows: Sequence[bytes]) -> bool:
    """Parse the result of CHECK_QUERY, the first matching row; without one, assume that there is state."""
    return next((row for row in rows if row.startswith(_ROW_PREFIX)), b"t").endswith(b"t")


class StatefulExtensions:
    """What a pool knows about the stateful extensions of its database."""

    def __init__(self) -> None:
        self.has_stateful = False
        self._has_result = False
        self._checked_at = 0.0

    def is_known(self, now: float) -> bool:
        return self._has_result and now - self._checked_at < CHECK_SECONDS

    def mark_checked(self, now: float) -> None:
        """Record that a check is running; other server connections use the last result meanwhile."""
        self._checked_at = now

    def set_result(self, *, has_stateful: bool) -> None:
        self.has_stateful, self._has_result = has_stateful, True
