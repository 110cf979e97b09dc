"""What a review must look at in the scripts and libraries of extensions that a tenant may create."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from bough.postgres.extensions import catalog, contrib, extension_scripts
from bough.postgres.extensions.extension import Extension

Finding = tuple[str, str, str]  # extension, kind, subject

_LANGUAGE = re.compile(r"\blanguage\s+'?\"?(\w+)(?!\w|\s*(?:,|\)))", re.IGNORECASE)
_SAFE_LANGUAGES = frozenset(["c", "internal", "plpgsql", "sql"])
_FUNCTION = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+(?:@extschema@\.)?([\w.]+)", re.IGNORECASE
)
_BODY = re.compile(r"(\$\w*\$).*?\1", re.DOTALL)
_DEFINER = re.compile(r"\bsecurity\s+definer\b", re.IGNORECASE)
_PATH = re.compile(r"\bset\s+search_path\s*(=|to)\s*pg_catalog\s*,\s*pg_temp", re.IGNORECASE)
_RISKS = {
    "event trigger": re.compile(r"create\s+event\s+trigger\s+(\w+)", re.IGNORECASE),
    "file": re.compile(r"\b(copy\s+\S+\s+(?:\([^)]*\)\s*)?(?:from|to)\s+(?:program|'))", re.IGNORECASE),
    "catalog": re.compile(r"\b(?:update|insert\s+into|delete\s+from)\s+(?:pg_catalog\.)?(pg_\w+)", re.IGNORECASE),
    "public may write": re.compile(
        r"\bgrant\s+[^;]*\b(?:all|insert|update|delete|truncate|create)\b[^;]*\bon\s+(?!function)([^;]*?)\s+to\s+public",
        re.IGNORECASE,
    ),
    "load": re.compile(r"^\s*load\s+'([^']*)'", re.IGNORECASE),
}
# Functions of the C library and of Postgres with which code leaves the database, or gets other rights.
_IMPORTS = frozenset(
    """
    AllocateFile BackgroundWorkerInitializeConnection OpenPipeStream OpenTransientFile PQconnectStart
    PQconnectStartParams PQconnectdb PQconnectdbParams PathNameOpenFile RegisterBackgroundWorker
    RegisterDynamicBackgroundWorker SetUserIdAndSecContext connect curl_easy_perform dlopen execl execv execve execvp
    fopen fopen64 fork getaddrinfo load_external_function load_file open open64 openat popen rename socket system unlink
    """.split()
)
_LIBRARY = re.compile(r"\$libdir/([\w.-]+)")


def review(extensions: Path, libraries: Path) -> Iterator[Finding]:
    for extension in _list_present(extensions):
        scripts = sorted(each for each in extensions.glob(f"{extension.name}--*.sql") if not each.is_symlink())
        texts = [each.read_text() for each in scripts]
        if extension.needs_superuser:
            for script, text in zip(scripts, texts, strict=True):
                yield from _review_script(extension.name, script.name, text)
        yield from _review_libraries(extension, extensions, texts, libraries)


def _list_present(extensions: Path) -> Iterator[Extension]:
    for control in sorted(extensions.glob("*.control")):
        entry = catalog.find(control.stem)
        if control.stem not in contrib.TRUSTED | contrib.SUPERUSER_ONLY:
            assert entry, f"{control.stem} is not in the catalog"
            if entry.is_allowed and "unavailable" not in control.read_text():
                yield entry


def _review_script(name: str, script: str, text: str) -> Iterator[Finding]:
    if extension_scripts.executes_queries(text) and not text.startswith("-- checked by the platform"):
        yield name, "no check of the schema", script
    for statement in extension_scripts.list_statements(text):
        head = _BODY.sub(" ", statement)
        function = _FUNCTION.match(head)
        if function:
            for language in _LANGUAGE.findall(head):
                if language.lower() not in _SAFE_LANGUAGES:
                    yield name, "language", language
            if _DEFINER.search(head) and not _PATH.search(head):
                yield name, "security definer", function[1].lower()
        for kind, risk in _RISKS.items():
            # A body of DO runs; the bodies of functions run later, with the rights of their caller.
            for found in risk.finditer(head if function else statement):
                yield name, kind, " ".join(found[1].lower().split())


def _review_libraries(extension: Extension, extensions: Path, texts: list[str], libraries: Path) -> Iterator[Finding]:
    control = (extensions / f"{extension.name}.control").read_text()
    names = {name for text in (control, *texts) for name in _LIBRARY.findall(text)}
    names |= {extension.preload_library} if extension.preload_library else set()
    for name in sorted(names):
        library = libraries / f"{name.removesuffix('.so')}.so"
        if library.is_file():
            yield from ((extension.name, "imports", symbol) for symbol in sorted(list_imports(library) & _IMPORTS))


def list_imports(library: Path) -> set[str]:
    """Return the undefined symbols of an ELF file, without their versions."""
    content = library.read_bytes()
    (start,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    sections = [struct.unpack_from("<4xI16xQQI", content, start + number * size) for number in range(count)]
    symbols = next(section for section in sections if section[0] == 11)  # SHT_DYNSYM
    _, offset, length, link = symbols
    strings = sections[link][1]
    imports = set()
    for position in range(offset, offset + length, 24):
        name, section = struct.unpack_from("<I2xH", content, position)
        if section == 0:
            begin = strings + name
            imports.add(content[begin : content.index(0, begin)].decode())
    return imports
