"""A plain Postgres server for tests, and the download of the Postgres that tests use."""

import asyncio
import os
import signal
import subprocess
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg

from bough.config import Settings, default_cache
from bough.engine.local.installs import download, installs
from bough.store.postgres import PostgresStore

_MIGRATED = "upgraded"


@cache
def ensure_postgres() -> None:
    """Download the Postgres that users get, once per machine. Tests that start no Postgres do not need it."""
    download.ensure_installed(Settings(cache=default_cache()))


class PostgresServer:
    """A Postgres server for stores of the platform."""

    def __init__(self, folder: Path, *options: str) -> None:
        ensure_postgres()
        self.folder = folder
        self._options = options  # arguments of postgres
        self._bin = installs.select_preferred(installs.find_installs(default_cache()).values())[17].bin
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._identity = {"user": 65534, "group": 65534, "extra_groups": []}
            os.chown(folder, 65534, 65534)
        self._process: subprocess.Popen[bytes] | None = None
        self._has_migrated = False

    def _start_process(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd="/",
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._identity,
        )

    def start(self) -> None:
        data = str(self.folder / "data")
        assert (
            self._start_process(
                str(self._bin / "initdb"), "-D", data, "-U", "store", "-A", "trust", "-N", "-E", "UTF8"
            ).wait()
            == 0
        )
        self._process = self._start_process(
            str(self._bin / "postgres"),
            "-D",
            data,
            "-k",
            str(self.folder),
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            *self._options,
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # does not wait for clients to disconnect
            self._process.wait()

    async def create_database(self, name: str, options: str = "") -> str:
        """Create a database and return its URL for the store."""
        connection = await self.connect()
        # Copying files takes half as long as copying through WAL.
        await connection.execute(f'create database "{name}" strategy file_copy {options}')
        await connection.close()
        return f"postgresql://store@/{name}?host={self.folder}"

    async def create_store_database(self) -> str:
        """Create a database with the tables of a new store, copied from a template, and return its URL."""
        if not self._has_migrated:
            store = PostgresStore(await self.create_database(_MIGRATED))
            await store.open()
            await store.close()
            self._has_migrated = True
        return await self.create_database(f"store_{uuid.uuid4().hex}", f"template {_MIGRATED}")

    async def connect(self) -> Any:
        while True:
            try:
                return await asyncpg.connect(host=str(self.folder), user="store", database="postgres")
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)
