"""All extensions that do not come with Postgres itself."""

from collections.abc import Iterator

from bough.postgres.extensions.extension import Extension
from bough.postgres.extensions.vector import VECTOR

EXTENSIONS: tuple[Extension, ...] = (VECTOR,)


def find(name: str) -> Extension | None:
    return next((each for each in EXTENSIONS if each.name == name), None)


def list_default_packages(major: int) -> Iterator[str]:
    """Yield the packages of the extensions in the default build."""
    for each in EXTENSIONS:
        if each.is_in_default_build:
            yield each.package_for(major)
