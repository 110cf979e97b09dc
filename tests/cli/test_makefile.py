"""`make up`: the program of the environment, and one message on a machine without a suitable Python."""

import shutil
import subprocess
import sys
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


def make_up(clone: Path, python: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    if python:
        (clone / "bin" / "python3").write_text(python)
        (clone / "bin" / "python3").chmod(0o755)
    return subprocess.run(
        [clone / "bin" / "make", "up", *arguments],
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


def test_up_runs_the_program_of_an_environment_that_is_current(clone: Path) -> None:
    programs = clone / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "bough"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    (clone / ".venv" / "run.stamp").touch()
    done = make_up(clone, None, "ARGS=--help")
    assert done.returncode == 0, done.stderr
    assert "--api-port" in done.stdout
