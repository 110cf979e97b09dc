"""`make` on a machine without a suitable Python prints one message."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOO_OLD = "#!/bin/sh\nexit 1\n"
WITHOUT_VENV = '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A minimal clone, and a folder of programs that is the whole PATH."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("make", "sh", "rm"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    return tmp_path


def make_up(clone: Path, python: str | None) -> subprocess.CompletedProcess[str]:
    if python:
        (clone / "bin" / "python3").write_text(python)
        (clone / "bin" / "python3").chmod(0o755)
    return subprocess.run(
        [clone / "bin" / "make", "up"],
        cwd=clone,
        env={"PATH": str(clone / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("python", [None, TOO_OLD])
def test_no_python_that_is_new_enough(clone: Path, python: str | None) -> None:
    done = make_up(clone, python)
    assert done.returncode != 0
    assert done.stderr.startswith("bough: Python 3.11 or later was not found; ")
    assert not (clone / ".venv").exists()


def test_python_without_venv(clone: Path) -> None:
    done = make_up(clone, WITHOUT_VENV)
    assert done.returncode != 0
    assert done.stderr.startswith("bough: python3 has no venv module; install it ")
