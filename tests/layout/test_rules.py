"""Rules that import contracts cannot express, checked on the source itself."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bough"
PURE = ("domain", "postgres", "engine/spec.py", "gateway/wire", "gateway/auth", "gateway/routing.py")
IMPURE_MODULES = {"asyncio", "time", "os", "socket", "subprocess", "pathlib", "shutil", "threading", "asyncpg"}


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _files(*places: str) -> list[Path]:
    found: list[Path] = []
    for place in places:
        path = SOURCE / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert found
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def _calls(tree: ast.AST, name: str) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("path", _files(*PURE), ids=lambda path: str(path.relative_to(SOURCE)))
def test_pure_packages_hold_no_async_no_clock_and_no_io(path: Path) -> None:
    tree = _parse(path)
    assert not IMPURE_MODULES & set(_imports(tree))
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree))
    assert "clock.now" not in path.read_text()


@pytest.mark.parametrize("path", _files("api", "pages"), ids=lambda path: path.name)
def test_the_edges_open_no_transaction_that_writes(path: Path) -> None:
    assert not _calls(_parse(path), "transaction")


def test_only_the_engine_starts_processes_and_talks_to_computes() -> None:
    allowed = {"engine", "cli"}  # the command line starts control itself, never Postgres
    for path in _files("."):
        imported = set(_imports(_parse(path)))
        if imported & {"subprocess", "asyncpg"}:
            assert path.relative_to(SOURCE).parts[0] in allowed, path


def test_settings_are_read_from_the_environment_in_one_place() -> None:
    readers = {str(path.relative_to(SOURCE)) for path in _files(".") if "os.environ" in path.read_text()}
    passing_it_on = {path for path in readers if path.startswith(("engine/local/", "cli/", "supervisor/"))}
    assert {path.split("/")[0] for path in readers - passing_it_on} == {"config"}


def test_exception_is_caught_only_where_errors_must_end() -> None:
    broad = {
        str(path.relative_to(SOURCE))
        for path in _files(".")
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id == "Exception"
    }
    assert broad <= {
        "operations/step_executor.py",
        "tasks/loop.py",
        "tasks/inspections.py",  # one compute must not prevent the inspection of the others
        "engine/local/computes/limited_connection.py",  # the driver reads what a tenant's code may send
        "api/middleware.py",
        "api/gateway_api.py",
        "gateway/connection.py",
    }


def test_every_module_has_a_docstring() -> None:
    silent = [path for path in _files(".") if not ast.get_docstring(_parse(path))]
    assert silent == []


def test_no_file_is_too_long() -> None:
    assert [path for path in _files(".") if len(path.read_text().splitlines()) > 400] == []


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in [*_files("."), *sorted(SOURCE.with_name("bough_client").rglob("*.py"))]:
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE.parent)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_name_is_a_metaphor() -> None:
    """Rejects words that are not used in this field."""
    rejected = {"desk", "wish", "wished", "wishes", "guest", "guests", "porter", "beside"}
    rejected |= {"ageing", "entrance", "intruder", "newcomer", "quietly", "sleeper", "whence"}
    other_sources = [path for folder in ("bench", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in [*_files("."), *other_sources]:
        if "migrations" in path.parts:
            continue
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                continue  # the name of a test is a sentence
            names = [getattr(node, field, None) for field in ("name", "id", "attr", "arg")]
            named = [name for name in names if isinstance(name, str) and name != "is_wished"]  # is_wished is a column
            assert not any(rejected & set(name.lower().split("_")) for name in named), (path, named)
