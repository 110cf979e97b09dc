"""Create the roles and databases of a spec in a running compute."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bough.engine.local.computes import logical_replication
from bough.engine.local.computes.launch_options import LaunchOptions
from bough.engine.local.computes.session import ComputeSession, open_session
from bough.engine.local.computes.target import ComputeTarget
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.spec import ComputeSpec, DatabaseSpec
from bough.postgres import MAINTENANCE_DATABASE, databases, output_plugins, roles
from bough.postgres.template import SPARE_DATABASE, SPARE_ROLE

# One query instead of three, because the first query of a new project waits for it.
_SELECT_EXISTING = (
    f"{roles.SELECT_EXISTING} union all {databases.SELECT_EXISTING} union all {output_plugins.SELECT_REPLICATION_ROLE}"
)
_DIFFERS_FROM_TEMPLATE = (
    asyncpg.DuplicateObjectError,
    asyncpg.UndefinedObjectError,
    asyncpg.DuplicateDatabaseError,
    asyncpg.InvalidCatalogNameError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExistingObjects:
    """Those of the requested roles and databases that the server already has."""

    roles: Mapping[str, str | None]  # name → verifier
    databases: Collection[str]
    has_replication_role: bool  # some tenant role has the attribute REPLICATION


# If the role of the template has REPLICATION, taking it over removes that attribute.
_TEMPLATE = _ExistingObjects(roles={SPARE_ROLE: None}, databases=[SPARE_DATABASE], has_replication_role=False)


async def ensure_roles_and_databases(
    spec: ComputeSpec, launch: LaunchOptions, target: ComputeTarget, folder: VolumeFolder, sockets: Path
) -> None:
    """Create roles and databases, only if they changed: a wake executes no statement."""
    applied = await asyncio.to_thread(folder.read_applied_digest)
    if target.is_applied(applied):
        return
    is_fresh = applied is None and launch.from_template
    database = _choose_first_database(spec) if is_fresh else MAINTENANCE_DATABASE
    async with open_session(sockets, database, launch.install.major) as session:
        if is_fresh and await _use_template(session, spec, launch.install.major):
            has_replication_role = _TEMPLATE.has_replication_role
        else:
            has_replication_role = await _apply_roles_and_databases(
                session, spec.target_verifiers, spec.databases, major=launch.install.major, is_fresh=is_fresh
            )
            if spec.primary is None:
                await session.execute(roles.SET_ADMIN_PATH)
                await session.execute(roles.END_ADMIN_WORKERS)  # those that started before
        if spec.primary is None and spec.has_logical_replication:
            await logical_replication.ensure_enabled(sockets, session, launch.install.major)
        elif spec.primary is None and has_replication_role:
            await logical_replication.ensure_disabled(session)
    await run_shielded(lambda: folder.write_applied_digest(target.applied_digest))


def _choose_first_database(spec: ComputeSpec) -> str:
    """Connect to the database that clients of a new project use first, which fills its caches."""
    names = {database.name for database in spec.databases}
    return SPARE_DATABASE if SPARE_DATABASE in names else MAINTENANCE_DATABASE


async def _use_template(session: ComputeSession, spec: ComputeSpec, major: int) -> bool:
    """Rename the spare role and database of the template, without a query before, which would delay the first query.

    Return False when they differ from those of the template because a crash interrupted an earlier attempt. No worker
    has to be ended, because no tenant has used the volume.
    """
    try:
        await _add_missing(
            session, spec.target_verifiers, _map_owners(spec.databases), _TEMPLATE, major=major, is_fresh=True
        )
    except _DIFFERS_FROM_TEMPLATE:
        return False
    return True


async def _apply_roles_and_databases(
    session: ComputeSession,
    verifiers: Mapping[str, str],
    target_databases: tuple[DatabaseSpec, ...],
    *,
    major: int,
    is_fresh: bool,
) -> bool:
    """Create missing roles, then the databases they own. Return True when a tenant role has REPLICATION."""
    owners = _map_owners(target_databases)
    names = [*verifiers, SPARE_ROLE], [*owners, SPARE_DATABASE]
    existing = _parse_existing(await session.fetch(_SELECT_EXISTING, *names))
    await _add_missing(session, verifiers, owners, existing, major=major, is_fresh=is_fresh)
    return existing.has_replication_role


def _map_owners(target_databases: tuple[DatabaseSpec, ...]) -> dict[str, str]:
    return {database.name: database.owner for database in target_databases}


async def _add_missing(
    session: ComputeSession,
    verifiers: Mapping[str, str],
    owners: Mapping[str, str],
    existing: _ExistingObjects,
    *,
    major: int,
    is_fresh: bool,
) -> None:
    statements = roles.plan_roles(verifiers, existing.roles, spare=SPARE_ROLE if is_fresh else None, major=major)
    if is_fresh:
        statements.append(roles.SET_ADMIN_PATH)  # which templates of earlier versions lack
    if statements:
        await session.execute(*statements)
    # One by one, because CREATE DATABASE cannot run inside a transaction block.
    spare_database = SPARE_DATABASE if is_fresh else None
    for statement in databases.plan_databases(owners, existing.databases, spare=spare_database):
        await session.execute(statement)


def _parse_existing(rows: list[tuple[str, bytes, str | None]]) -> _ExistingObjects:
    """Names in another encoding match no requested name."""
    decoded = [(kind, name.decode(errors="replace"), verifier) for kind, name, verifier in rows]
    return _ExistingObjects(
        roles={name: verifier for kind, name, verifier in decoded if kind == "role"},
        databases=[name for kind, name, _ in decoded if kind == "database"],
        has_replication_role=any(kind == "replication_role" for kind, _, _ in decoded),
    )
