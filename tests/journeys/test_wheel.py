"""The wheel works without the checkout: installed into a new environment, started from an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from bough import __version__
from support.folders import temporary_folder
from support.platform import install_templates
from support.program import find_free_port, make_environment

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(900)


def build_wheel(folder: Path) -> Path:
    """Builds from a copy: setuptools leaves a folder `build` next to the sources."""
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements", "src"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        source.mkdir(exist_ok=True)
        copy(ROOT / name, source / name)
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder / "dist", source)
    return next((folder / "dist").glob(f"bough-{__version__}-*.whl"))


@pytest.fixture(params=["dependencies of this environment", pytest.param("pip install", marks=pytest.mark.long)])
def environment(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A new virtual environment with the wheel in it."""
    with temporary_folder(0o755) as folder:
        wheel = build_wheel(folder)
        environment = folder / "environment"
        _run(sys.executable, "-m", "venv", "--without-pip", environment)
        pip_install = (sys.executable, "-m", "pip", "--python", environment, "install", wheel)
        if request.param == "pip install":
            _run(*pip_install)
        else:
            _run(*pip_install, "--no-deps")
            site_packages = next(environment.glob("lib/python*/site-packages"))
            (site_packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        yield environment


@pytest.fixture
def bough(environment: Path) -> Iterator["InstalledProgram"]:
    home = environment.parent / "home"
    install_templates(home)
    (environment.parent / "empty").mkdir()
    program = InstalledProgram(environment / "bin" / "bough", home)
    yield program
    program("down", "--home", str(home))


class InstalledProgram:
    def __init__(self, path: Path, home: Path) -> None:
        self._path = path
        self.home = home

    def __call__(self, *arguments: str) -> str:
        """Runs a command in an empty folder, without variables that point to the checkout. Returns its output."""
        return _run(self._path, *arguments, cwd=self.home.parent / "empty", env=make_environment())


def _run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] = os.environ) -> str:
    """Runs a command without PYTHONPATH, which may point to the checkout."""
    variables = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    completed = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, f"{command}:\n{completed.stdout}\n{completed.stderr}"
    return completed.stdout


def test_a_database_from_the_installed_wheel(bough: InstalledProgram) -> None:
    assert bough("version").startswith(f"bough {__version__} ")
    ports = ("--api-port", str(find_free_port()), "--gateway-port", str(find_free_port()))
    started = json.loads(bough("up", "--detach", "--json", "--home", str(bough.home), *ports))
    url = started["instant_url"].removesuffix("/api/v1")
    created = json.loads(bough("get-db", "-y", "--json", "--host", url))
    with psycopg.connect(created["connection_string"], hostaddr="127.0.0.1") as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert created["connection_string"] in (bough.home.parent / "empty" / ".env").read_text()
