"""Read the indexes of Debian's suites from a mirror, checked against Debian's signature."""

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pysequoia

from bough.engine.local.debian import deb_file, keyring, package_index, releases
from bough.engine.local.debian.architecture import Architecture
from bough.engine.local.debian.errors import FileMissing, PackageError
from bough.engine.local.debian.mirrors import ExpectedFile, Mirrors
from bough.engine.local.debian.package_index import Package, PackageIndex
from bough.engine.local.debian.releases import Release
from bough.engine.local.progress import Progress

_STAGE = "reading Debian's package index"
# Debian's largest suites have about a fifth of this. It limits what an index costs whose signature is not verified yet.
_MAX_PACKAGES_BYTES = 512 * 1024**2
_MAX_KEYRING_BYTES = 32 * 1024**2


def read_index(mirrors: Mirrors, suites: Sequence[str], architecture: Architecture, progress: Progress) -> PackageIndex:
    """Return the packages of the suites. All but the first suite may be missing on the mirror."""
    progress(_STAGE, 0, 1)
    certificates = keyring.read_certificates()
    with ThreadPoolExecutor(len(suites)) as pool:
        found = list(pool.map(partial(_fetch_release, mirrors), suites))
    signed = [(suite, content) for suite, content in zip(suites, found, strict=True) if content is not None]
    if not signed or signed[0][0] != suites[0]:
        raise FileMissing(
            f"No mirror from {mirrors.source} has Debian's suite {suites[0]}: set debian_mirror to the address of a "
            "Debian mirror and try again."
        )
    if not certificates:
        certificates = _fetch_keyring(mirrors, signed[0], architecture)
    checked = [_check_release(mirrors, suite, content, certificates) for suite, content in signed]
    with ThreadPoolExecutor(len(checked)) as pool:
        contents = list(pool.map(partial(_fetch_packages, mirrors, architecture=architecture), checked))
    progress(_STAGE, 1, 1)
    return PackageIndex(package for packages in contents for package in packages)


def fetch_bytes(mirrors: Mirrors, expected: ExpectedFile, on_bytes: Callable[[int], None] = lambda _: None) -> bytes:
    content = io.BytesIO()
    mirrors.fetch(expected, content, on_bytes)
    return content.getvalue()


def _fetch_release(mirrors: Mirrors, suite: str) -> bytes | None:
    path = releases.index_path(suite)
    try:
        return mirrors.preferring(path).fetch_unknown(path)
    except FileMissing:
        return None


def _check_release(mirrors: Mirrors, suite: str, content: bytes, certificates: list[pysequoia.Cert]) -> Release:
    text = keyring.verify_signature(content, certificates, suite)
    return releases.parse(text, suite, checks_expiry=mirrors.checks_expiry)


def _fetch_packages(mirrors: Mirrors, release: Release, architecture: Architecture) -> list[Package]:
    name = f"main/binary-{architecture.name}/Packages"
    plain, compressed = release.find_file(name), release.find_file(f"{name}.xz")
    for each in (plain, compressed):
        _check_size(each, _MAX_PACKAGES_BYTES)
    return list(package_index.parse(fetch_bytes(mirrors, compressed), size=plain.size))


def _check_size(file: ExpectedFile, max_bytes: int) -> None:
    if file.size > max_bytes:
        raise PackageError(f"The mirror's file {file.path} is larger than any such file of Debian: not used.")


def _fetch_keyring(mirrors: Mirrors, signed: tuple[str, bytes], architecture: Architecture) -> list[pysequoia.Cert]:
    """Get Debian's keys from the mirror, for a machine without them.

    The index is not verified yet. That does no harm: keys are accepted by their fingerprints, and the index is used
    again only after they have verified it.
    """
    suite, content = signed
    release = releases.parse(content, suite, checks_expiry=False)
    packages = _fetch_packages(mirrors, release, architecture)
    package = next((each for each in packages if each.name == keyring.KEYRING_PACKAGE), None)
    if package is None:
        raise PackageError(f"Debian's mirror has no package {keyring.KEYRING_PACKAGE}, which contains Debian's keys.")
    _check_size(package.file, _MAX_KEYRING_BYTES)
    with TemporaryDirectory() as folder:
        file = io.BytesIO(fetch_bytes(mirrors, package.file))
        deb_file.unpack(file, Path(folder), _keep_keyrings, _MAX_KEYRING_BYTES)
        return keyring.read_certificates(Path(folder))


def _keep_keyrings(path: str) -> bool:
    return path.startswith(keyring.KEYRING_FOLDERS)


def list_suites(codename: str) -> Iterator[str]:
    """Return a release with the suites that update it."""
    yield codename
    yield f"{codename}-updates"
    yield f"{codename}-security"
