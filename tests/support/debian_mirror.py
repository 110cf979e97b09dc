"""A small mirror of Debian in a folder, with indexes that a key of the test signed, and an HTTP server for it."""

import hashlib
import lzma
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pysequoia

from bough.engine.local.debian import architecture, keyring
from bough.engine.local.debian.mirrors import ExpectedFile
from bough.engine.local.installs.locks import LockedPackage
from support.deb_files import make_deb, make_file

SUITE = "trixie"
SERVER_VERSION = "17.12-0+deb13u1"
Members = Iterable[tuple[tarfile.TarInfo, bytes]]


@cache
def make_key(name: str = "archive") -> pysequoia.Tsk:
    return pysequoia.Tsk.generate(name)


def server_files(version: str = SERVER_VERSION, major: int = 17) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return a server that can say its version, and a program with a dynamic linker."""
    folder = f"usr/lib/postgresql/{major}/bin"
    script = f"#!/bin/sh\necho 'postgres (PostgreSQL) {version.partition('-')[0]} (Debian {version})'\n"
    program = Path(shutil.which("true") or "/bin/true").resolve().read_bytes()
    return [
        make_file(f"{folder}/postgres", script.encode(), 0o755),
        make_file(f"{folder}/initdb", program, 0o755),
        make_file(f"usr/share/postgresql/{major}/extension/plpgsql.control", b"comment = 'PL/pgSQL'\n"),
    ]


@dataclass
class DebianMirror:
    folder: Path
    key: pysequoia.Tsk = field(default_factory=make_key)
    stanzas: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)  # by suite and package

    @property
    def architecture(self) -> str:
        return architecture.find_architecture().name

    @property
    def fingerprint(self) -> str:
        fingerprint: str = self.key.extract_certificate().fingerprint.lower()
        return fingerprint

    def add(self, name: str, version: str, members: Members = (), *, suite: str = SUITE, **fields: str) -> Path:
        """Add a package, or replace it. It is in the index after the next `publish`."""
        control = {"Package": name, "Version": version, "Architecture": self.architecture, **fields}
        return self.add_file(control, make_deb(control, members), suite)

    def add_file(self, control: Mapping[str, str], content: bytes, suite: str = SUITE) -> Path:
        pool = "pool/updates/main" if suite.endswith("-security") else "pool/main"
        path = f"{pool}/{control['Package']}_{control['Version']}_{self.architecture}.deb"
        self._write(path, content)
        stanza = {**control, "Filename": path, "Size": str(len(content)), "SHA256": sha256(content)}
        self.stanzas.setdefault(suite, {})[control["Package"]] = stanza
        return self.folder / path

    def add_server(self, version: str = SERVER_VERSION, *, suite: str = SUITE) -> Path:
        """Add the packages of a small Postgres."""
        self.add("libpq5", version, [make_file("usr/lib/libpq.so.5", b"library")], suite=suite)
        return self.add("postgresql-17", version, server_files(version), suite=suite, Depends="libpq5 (>= 17), tzdata")

    def add_keyring(self, *keys: pysequoia.Tsk) -> Path:
        content = b"".join(bytes(key.extract_certificate()) for key in keys or (self.key,))
        path = "usr/share/keyrings/debian-archive-keyring.gpg"
        return self.add(keyring.KEYRING_PACKAGE, "2025.1", [make_file(path, content)])

    def publish(self, suite: str = SUITE, *, key: pysequoia.Tsk | None = None, **fields: str) -> None:
        """Write the index of a suite and sign it. Fields of the release replace the usual ones."""
        packages = "\n".join(
            "".join(f"{name}: {value}\n" for name, value in stanza.items())
            for stanza in self.stanzas.get(suite, {}).values()
        ).encode()
        self.publish_packages(packages, lzma.compress(packages), suite, key=key, **fields)

    def publish_packages(
        self, plain: bytes, compressed: bytes, suite: str = SUITE, *, key: pysequoia.Tsk | None = None, **fields: str
    ) -> None:
        name = f"main/binary-{self.architecture}/Packages"
        files = {name: plain, f"{name}.xz": compressed}
        now = datetime.now(UTC)
        release = {
            "Origin": "Debian",
            "Suite": "stable",
            "Codename": suite,
            "Date": format_datetime(now, usegmt=True),
            "Valid-Until": format_datetime(now + timedelta(days=7), usegmt=True),
            **{field.replace("_", "-"): value for field, value in fields.items()},
        }
        head = "".join(f"{field}: {value}\n" for field, value in release.items())
        hashes = "".join(f" {sha256(content)} {len(content)} {path}\n" for path, content in files.items())
        self._write(f"dists/{suite}/{name}.xz", compressed)
        self.sign(f"{head}SHA256:\n{hashes}".encode(), suite, key=key)

    def sign(self, release: bytes, suite: str = SUITE, *, key: pysequoia.Tsk | None = None) -> None:
        signer = (key or self.key).signer()
        self._write(f"dists/{suite}/InRelease", pysequoia.sign(signer, release, mode=pysequoia.SignatureMode.CLEAR))

    def change(self, path: Path | str, before: bytes, after: bytes) -> None:
        file = self.folder / path
        content = file.read_bytes()
        assert before in content
        file.write_bytes(content.replace(before, after, 1))

    def packages_file(self, suite: str = SUITE) -> Path:
        return self.folder / f"dists/{suite}/main/binary-{self.architecture}/Packages.xz"

    def list_locked(self, suite: str = SUITE) -> tuple[LockedPackage, ...]:
        """Return the packages as a lock of this moment names them."""
        return tuple(
            LockedPackage(
                name=name,
                version=each["Version"],
                file=ExpectedFile(path=each["Filename"], size=int(each["Size"]), sha256=each["SHA256"]),
            )
            for name, each in sorted(self.stanzas[suite].items())
        )

    def _write(self, path: str, content: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class FolderHandler(SimpleHTTPRequestHandler):
    """Serves files of a folder; the behaviour of a path replaces its response."""

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.site.requests.append(path)
        behaviour = next((act for suffix, act in self.site.behaviours.items() if path.endswith(suffix)), None)
        if behaviour is None or behaviour(self):
            super().do_GET()

    def log_message(self, *_arguments: Any) -> None:
        """Tests look at the list of requests instead."""

    @property
    def site(self) -> "FolderServer":
        return self.server.site  # type: ignore[attr-defined, no-any-return]


# Gets the request; returns whether the file is served as usual afterwards.
Behaviour = Callable[[FolderHandler], bool]


@dataclass
class FolderServer:
    folder: Path
    url: str = ""
    requests: list[str] = field(default_factory=list)  # paths
    behaviours: dict[str, Behaviour] = field(default_factory=dict)  # by the end of a path
    closing: threading.Event = field(default_factory=threading.Event)  # ends behaviours that wait


@contextmanager
def serve_folder(folder: Path) -> Iterator[FolderServer]:
    site = FolderServer(folder)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            FolderHandler(request, client_address, self, directory=str(folder))

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients end transfers that they do not want."""

    with Server(("127.0.0.1", 0), FolderHandler) as server:
        server.site = site  # type: ignore[attr-defined]
        site.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            site.closing.set()
            server.shutdown()
            thread.join()
