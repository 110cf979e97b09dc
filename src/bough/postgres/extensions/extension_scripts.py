"""Checks that are added at the beginning of an extension's scripts, which run as a superuser.

A script runs with the schema of the extension in the search_path, and that schema may belong to a tenant. A statement
that executes a query could call a function or operator of the tenant whose arguments fit better than those of the one
that is meant.
"""

import re
from collections.abc import Iterator

from bough.postgres.extensions.extension import Extension
from bough.postgres.quoting import literal

_MARK = "-- checked by the platform"
# Comments, quoted texts and names, and bodies of functions: what may contain a semicolon.
_TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|(?P<quoted>'(?:[^']|'')*'|\"[^\"]*\"|(?P<tag>\$\w*\$).*?(?P=tag))", re.DOTALL)
_META_COMMAND = re.compile(r"^\\.*$", re.MULTILINE)  # of psql; the server ignores it
_DEFINES = re.compile(
    r"(create|comment|grant|revoke|drop|set|reset)\b"
    r"|alter\s+(aggregate|cast|extension|function|operator|procedure|routine|schema|sequence|type|view)\b"
    r"|select\s+pg_catalog\.pg_extension_config_dump\(\s*'[^']*'\s*,\s*''\s*\)$",
    re.IGNORECASE,
)
_EXECUTES_ANYWAY = re.compile(
    r"create\s+(unlogged\s+)?table\s.*\bas\s+(select|with)\b|create\s+materialized", re.I | re.S
)
_CALL = re.compile(r"([a-z_][a-z0-9_]*)\"?\s*\(", re.IGNORECASE)


def list_statements(script: str) -> Iterator[str]:
    """Yield the statements without comments."""
    text = _META_COMMAND.sub("", script)
    start, kept = 0, []
    for token in _TOKEN.finditer(text):
        kept.append(text[start : token.start()].replace(";", "\0"))
        kept.append(token["quoted"] or " ")
        start = token.end()
    kept.append(text[start:].replace(";", "\0"))
    yield from (each.strip() for each in "".join(kept).split("\0") if each.strip())


def executes_queries(script: str) -> bool:
    """Return whether a statement calls functions or operators, and does not only define objects."""
    return any(not _DEFINES.match(each) or _EXECUTES_ANYWAY.match(each) for each in list_statements(script))


def add_checks(script: str, extension: Extension, *, creates: bool) -> str:
    """Return a script with its checks. `creates`: CREATE EXTENSION runs it first."""
    if _MARK in script:
        return script
    checks = []
    if creates and extension.preload_library:
        checks.append(_build_preload_check(extension))
    if extension.needs_superuser and (extension.schema or executes_queries(script)):
        checks.append(_build_schema_check(extension, script))
    return "".join([f"{_MARK}\n", *checks, script]) if checks else script


def build_preload_warning(library: str) -> str:
    """Return a statement for the script of an extension that can be created without its library, but does nothing."""
    message = f'the extension "{library}" has no effect until its library is preloaded'
    return _raise_unless_preloaded(library, "warning", message, f"{_preload_hint(library)} and restart the endpoint.")


def _build_preload_check(extension: Extension) -> str:
    library = extension.preload_library or ""
    message = f'the extension "{extension.name}" needs its library to be preloaded'
    hint = f"{_preload_hint(library)} restart the endpoint, and try again."
    return _raise_unless_preloaded(library, "object_not_in_prerequisite_state", message, hint)


def _raise_unless_preloaded(library: str, level: str, message: str, hint: str) -> str:
    return f"""do $bough$
begin
    if not {literal(library)} operator(pg_catalog.=) any (pg_catalog.regexp_split_to_array(
        pg_catalog.current_setting('shared_preload_libraries'), ' *, *'))
    then
        raise {level} using
            message = {literal(message)},
            hint = {literal(hint)};
    end if;
end $bough$;
"""


def _preload_hint(library: str) -> str:
    return f'Add "{library}" to preload_libraries.enabled_libraries in the settings of the project or the endpoint,'


def _build_schema_check(extension: Extension, script: str) -> str:
    """Refuse schemas with functions of tenants whose names the script may call, or with operators of tenants."""
    names = sorted({name.lower() for name in _CALL.findall(script)})
    return f"""do $bough$
declare
    found text;
begin
    {_build_name_check(extension)}select pg_catalog.format('%s', p.oid::pg_catalog.regprocedure) into found
      from pg_catalog.pg_proc as p join pg_catalog.pg_roles as r on r.oid operator(pg_catalog.=) p.proowner
     where p.pronamespace operator(pg_catalog.=) any (
               select n.oid from pg_catalog.pg_namespace as n
                where n.nspname operator(pg_catalog.=) any (pg_catalog.current_schemas(false)))
       and not r.rolsuper
       and pg_catalog.lower(p.proname::text) operator(pg_catalog.=) any (
               {literal("{" + ",".join(names) + "}")}::text[])
     limit 1;
    if found is null then
        select pg_catalog.format('%s', o.oid::pg_catalog.regoperator) into found
          from pg_catalog.pg_operator as o join pg_catalog.pg_roles as r on r.oid operator(pg_catalog.=) o.oprowner
         where o.oprnamespace operator(pg_catalog.=) any (
                   select n.oid from pg_catalog.pg_namespace as n
                    where n.nspname operator(pg_catalog.=) any (pg_catalog.current_schemas(false)))
           and not r.rolsuper
         limit 1;
    end if;
    if found is not null then
        raise object_not_in_prerequisite_state using
            message = {literal(f'the script of the extension "{extension.name}" could call ')}
                operator(pg_catalog.||) found operator(pg_catalog.||) ' instead of a function or operator of Postgres',
            hint = 'Create the extension in a schema of its own, such as with CREATE EXTENSION … SCHEMA.';
    end if;
end $bough$;
"""


def _build_name_check(extension: Extension) -> str:
    """An extension with a fixed schema names it in its scripts; its owner could have renamed it."""
    if extension.schema is None:
        return ""
    return f"""if pg_catalog.current_schema() operator(pg_catalog.<>) {literal(extension.schema)} then
        raise object_not_in_prerequisite_state using
            message = {literal(f'the schema of the extension "{extension.name}" must be called {extension.schema}')},
            hint = 'Rename it back with ALTER SCHEMA.';
    end if;
    """
