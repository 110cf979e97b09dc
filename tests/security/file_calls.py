"""Finds calls in the platform's source that open, read, list, stat or remove a file by path."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "bough"
# Code that runs in control, in a process of root or in the CLI. The gateway has no access to tenants' folders.
SEARCHED_PATHS = (
    "engine",
    "operations",
    "tasks",
    "control",
    "api",
    "instant",
    "pages",
    "supervisor",
    "cli",
    "app.py",
    "log_rotation.py",
)

_PATH_METHODS = frozenset(
    "chmod exists glob hardlink_to is_dir is_fifo is_file is_mount is_socket is_symlink iterdir lchmod lstat mkdir "
    "open read_bytes read_text readlink rename rglob rmdir samefile stat symlink_to touch unlink write_bytes "
    "write_text".split()
)
_OS_FUNCTIONS = frozenset(
    "access chmod chown fwalk lchown link listdir lstat makedirs mkdir mkfifo mknod open readlink remove removedirs "
    "rename renames replace rmdir scandir stat statvfs symlink truncate unlink utime walk".split()
)
_OS_PATH_FUNCTIONS = frozenset("exists getmtime getsize isdir isfile islink lexists realpath samefile".split())
_HARMLESS = frozenset(("shutil.which", "shutil.get_terminal_size"))
# Objects with an `open` method or similar that does not open a file.
_NON_FILE_OWNERS = ("vault", "store", "_warm", "webbrowser", "Postmaster")


class FileCall(NamedTuple):
    module: str  # path below `src/bough`
    function: str  # qualified by its class; empty at module level
    call: str


def find_in_source() -> Iterator[FileCall]:
    for searched in SEARCHED_PATHS:
        path = SOURCE / searched
        assert path.exists(), f"{path} does not exist; update SEARCHED_PATHS"
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield from find_in_text(file.read_text(), str(file.relative_to(SOURCE)))


def find_in_text(text: str, module: str) -> Iterator[FileCall]:
    for function, call in _iterate_calls(ast.parse(text), ""):
        description = _describe_call(call)
        if description is not None:
            yield FileCall(module, function, description)


def _iterate_calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        child_function = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            child_function = f"{function}.{child.name}" if function else child.name
        elif isinstance(child, ast.Call):
            yield function, child
        yield from _iterate_calls(child, child_function)


def _describe_call(call: ast.Call) -> str | None:
    """Returns the name of a call that accesses a file by path, or None for other calls."""
    if isinstance(call.func, ast.Name):
        return "open" if call.func.id == "open" else None
    if not isinstance(call.func, ast.Attribute):
        return None
    owner, name = ast.unparse(call.func.value), call.func.attr
    qualified = f"{owner}.{name}"
    if owner == "os":
        return qualified if name in _OS_FUNCTIONS else None
    if owner == "os.path":
        return qualified if name in _OS_PATH_FUNCTIONS else None
    if owner == "shutil":
        return None if qualified in _HARMLESS else qualified
    if name not in _PATH_METHODS or owner.endswith(_NON_FILE_OWNERS) or _does_not_follow_links(call):
        return None
    return f".{name}"


def _does_not_follow_links(call: ast.Call) -> bool:
    """Whether the call concerns a directory entry itself, without following a link."""
    return any(
        keyword.arg == "follow_symlinks" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in call.keywords
    )
