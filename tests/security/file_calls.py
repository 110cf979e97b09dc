"""Finds calls that open, read, list, stat or remove a file by its name, in the source of the platform."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "bough"
# All that control, a root process or the command line runs. The gateway has no rights to tenants' folders.
SEARCHED_PATHS = ("engine", "operations", "tasks", "control", "api", "instant", "pages", "cli", "app.py", "rotation.py")

_OF_PATHS = frozenset(
    "chmod exists glob hardlink_to is_dir is_fifo is_file is_mount is_socket is_symlink iterdir lchmod lstat mkdir "
    "open read_bytes read_text readlink rename rglob rmdir samefile stat symlink_to touch unlink write_bytes "
    "write_text".split()
)
_OF_OS = frozenset(
    "access chmod chown fwalk lchown link listdir lstat makedirs mkdir mkfifo mknod open readlink remove removedirs "
    "rename renames replace rmdir scandir stat statvfs symlink truncate unlink utime walk".split()
)
_OF_OS_PATH = frozenset("exists getmtime getsize isdir isfile islink lexists realpath samefile".split())
_HARMLESS = frozenset(("shutil.which", "shutil.get_terminal_size"))
# What is opened here is no file.
_NON_FILE_OWNERS = ("vault", "store", "_warm", "webbrowser", "Postmaster")


class FileCall(NamedTuple):
    module: str  # its path below `src/bough`
    function: str  # with its class; empty at the top of the module
    call: str


def find_in_source() -> Iterator[FileCall]:
    for place in SEARCHED_PATHS:
        path = SOURCE / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield from find_in_text(file.read_text(), str(file.relative_to(SOURCE)))


def find_in_text(text: str, module: str) -> Iterator[FileCall]:
    for function, call in _calls(ast.parse(text), ""):
        found = _describe_call(call)
        if found is not None:
            yield FileCall(module, function, found)


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}" if function else child.name
        elif isinstance(child, ast.Call):
            yield function, child
        yield from _calls(child, inner)


def _describe_call(call: ast.Call) -> str | None:
    """The call in words, if it is one by name; None: it is harmless."""
    if isinstance(call.func, ast.Name):
        return "open" if call.func.id == "open" else None
    if not isinstance(call.func, ast.Attribute):
        return None
    owner, name = ast.unparse(call.func.value), call.func.attr
    whole = f"{owner}.{name}"
    if owner == "os":
        return whole if name in _OF_OS else None
    if owner == "os.path":
        return whole if name in _OF_OS_PATH else None
    if owner == "shutil":
        return None if whole in _HARMLESS else whole
    if name not in _OF_PATHS or owner.endswith(_NON_FILE_OWNERS) or _is_of_an_entry(call):
        return None
    return f".{name}"


def _is_of_an_entry(call: ast.Call) -> bool:
    """Asked of an entry of an open folder, and not of what a link leads to."""
    return any(
        given.arg == "follow_symlinks" and isinstance(given.value, ast.Constant) and given.value.value is False
        for given in call.keywords
    )
