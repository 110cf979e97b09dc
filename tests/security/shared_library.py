"""A small shared library with a constructor that creates a file, in place of an attacker's code."""

import shutil
import subprocess
from pathlib import Path

from support.requirements import require

SOURCE = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) { close(open(MARKER, O_CREAT | O_WRONLY, 0644)); }
"""


def compile_library(folder: Path, marker: Path) -> Path:
    """Compiles a world-readable library; loading it creates the file `marker`."""
    compiler = shutil.which("cc")
    require("cc", compiler is not None, "this test needs a C compiler for a shared library")
    assert compiler is not None
    library = folder / "attack.so"
    source = folder / "attack.c"
    source.write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", f'-DMARKER="{marker}"', "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    library.chmod(0o755)
    return library
