"""A small site for Vite, and the result of a run of Vite that served it."""

import json
from pathlib import Path
from typing import Any

from support.js_workspace import Result

_PAGE = '<!doctype html><script type="module" src="/main.js"></script>'
_PROGRAM = "console.log(import.meta.env.MODE, import.meta.env.VITE_INSTANT_CLAIM_URL);"


def create_site(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in {"index.html": _PAGE, "main.js": _PROGRAM, **files}.items():
        (folder / name).write_text(text)
    return folder


def parse_last_line(done: Result) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
