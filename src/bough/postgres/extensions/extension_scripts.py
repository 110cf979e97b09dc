"""The statements of an extension's scripts, and which checks the scripts get at their beginning."""

import re
from collections.abc import Iterator

from bough.postgres.extensions import script_checks
from bough.postgres.extensions.extension import Extension

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
        checks.append(script_checks.build_preload_check(extension))
    if extension.needs_superuser and (extension.schema or executes_queries(script)):
        names = {name.lower() for name in _CALL.findall(script)}
        checks.append(script_checks.build_schema_check(extension, names))
    return "".join([f"{_MARK}\n", *checks, script]) if checks else script
