"""Extensions whose libraries keep something in a session that no command of Postgres ends.

dblink keeps its connections until the process ends, a procedural language its global variables. In a database
that has such an extension, a server connection that changes hands is closed. Which libraries a process has
loaded cannot be asked for, so the catalog is; and a function may create an extension, so it is asked again.
"""

from collections.abc import Sequence

from bough.gateway.pooling.statements import encode_query

CHECK_SECONDS = 0.1  # that an answer counts for, in a pool whose members change hands more often

# Nothing of these outlives DISCARD ALL. One that is not known here counts as one that keeps something.
_CLEANED = """
    adminpack amcheck autoinc bloom btree_gin btree_gist citext cube dict_int dict_xsyn earthdistance file_fdw
    fuzzystrmatch hstore insert_username intagg intarray isn lo ltree moddatetime pageinspect pg_buffercache
    pg_freespacemap pg_prewarm pg_stat_statements pg_surgery pg_trgm pg_visibility pg_walinspect pgcrypto pgrowlocks
    pgstattuple plpgsql refint seg sslinfo tablefunc tcn tsm_system_rows tsm_system_time unaccent uuid-ossp vector xml2
""".split()
_MARK = "extensions"
# One that is written in SQL alone has no library.
_KEEP_STATE = """
    SELECT FROM pg_catalog.pg_extension e
     WHERE e.extname OPERATOR(pg_catalog.<>) ALL ('{{{cleaned}}}'::pg_catalog.name[])
       AND EXISTS (
           SELECT FROM pg_catalog.pg_depend d
             JOIN pg_catalog.pg_proc p ON p.oid = d.objid
             JOIN pg_catalog.pg_language l ON l.oid = p.prolang
            WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid
              AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND l.lanname = 'c'
       )
"""
_TEXT = f"SELECT '{_MARK}', EXISTS ({_KEEP_STATE.format(cleaned=','.join(_CLEANED))})"
# Whoever chose the search_path may have operators of that name.
CHECK_QUERY = encode_query(" ".join(_TEXT.replace(" = ", " OPERATOR(pg_catalog.=) ").split()).encode())
_BEGINNING = (2).to_bytes(2) + len(_MARK).to_bytes(4) + _MARK.encode()


def parse_keeps_state(rows: Sequence[bytes]) -> bool:
    """What the check said; what it did not say, it may. The first row that looks so is its own: settings come later."""
    return next((row for row in rows if row.startswith(_BEGINNING)), b"t").endswith(b"t")


class StatefulExtensions:
    """What a pool knows of those of its database."""

    def __init__(self) -> None:
        self.has_stateful = False
        self._has_answer = False
        self._asked = 0.0

    def is_known(self, now: float) -> bool:
        return self._has_answer and now - self._asked < CHECK_SECONDS

    def mark_checked(self, now: float) -> None:
        """One member does; others go by the last answer meanwhile."""
        self._asked = now

    def set_result(self, *, has_stateful: bool) -> None:
        self.has_stateful, self._has_answer = has_stateful, True
