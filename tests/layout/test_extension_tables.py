"""The tables in docs/extensions.md are those of the catalog. WRITE_GOLDEN=1 writes them."""

import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from bough.postgres.extensions import catalog, contrib
from bough.postgres.extensions.extension import Extension

PAGE = Path(__file__).parents[2] / "docs" / "extensions.md"
_WIDTH = 120


def test_the_page_has_the_tables_of_the_catalog() -> None:
    text = PAGE.read_text()
    for name, expected in build_parts().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        part = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
        found = part.search(text)
        assert found is not None, name
        if os.environ.get("WRITE_GOLDEN"):
            text = f"{text[: found.start()]}{expected}\n{text[found.end() :]}"
        else:
            assert found[0] == f"{expected}\n", f"the part {name!r} of {PAGE.name} is not that of the catalog"
    if os.environ.get("WRITE_GOLDEN"):
        PAGE.write_text(text)


@pytest.mark.parametrize("entry", catalog.EXTENSIONS, ids=lambda entry: entry.name)
def test_every_extension_is_named(entry: Extension) -> None:
    assert f"`{entry.name}`" in PAGE.read_text()


def build_parts() -> dict[str, str]:
    allowed = [each for each in catalog.EXTENSIONS if each.is_allowed]
    refused = [each for each in catalog.EXTENSIONS if not each.is_allowed]
    names = {each.name for each in catalog.EXTENSIONS}
    return {
        "default": _build_table([each for each in allowed if each.is_in_default_build]),
        "on demand": _build_table([each for each in allowed if not each.is_in_default_build]),
        "contrib": _fill(f"All builds have {_list_names(contrib.TRUSTED)}."),
        "refused": _build_refused(refused),
        "removed": _fill(
            "Those that come with Postgres and access files of the server, or run code outside of the database, are "
            f"removed from the builds: {_list_names(contrib.REMOVED - names)}."
        ),
    }


def _build_table(entries: Iterable[Extension]) -> str:
    rows = [(f"`{each.name}`", each.summary, _list_majors(each), _describe_use(each)) for each in _sort(entries)]
    return _format_table(("extension", "what it is", "Postgres", ""), rows)


def _build_refused(entries: Iterable[Extension]) -> str:
    by_reason: dict[str, list[str]] = {}
    for each in _sort(entries):
        by_reason.setdefault(each.review, []).append(each.name)
    return _format_table(("extension", "why"), [(_list_names(names), reason) for reason, names in by_reason.items()])


def _describe_use(entry: Extension) -> str:
    notes = []
    if entry.preload_library:
        notes.append("preload")
    if entry.output_plugin:
        notes.append("output plugin")
    if entry.schema:
        notes.append(f"in the schema `{entry.schema}`")
    if entry.requires:
        notes.append(f"needs {_list_names(entry.requires)}")
    return ", ".join(notes)


def _list_majors(entry: Extension) -> str:
    return ", ".join(map(str, sorted(entry.majors)))


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _sort(entries: Iterable[Extension]) -> list[Extension]:
    return sorted(entries, key=lambda each: each.name)


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fill(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, break_long_words=False)
