"""Migrations produce the current tables, keep a backup, and refuse an unknown schema."""

import asyncio
import sqlite3
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from bough.domain.maintenance_window import choose_default
from bough.domain.user import OPERATOR
from bough.errors import PreconditionFailed
from bough.ids import BranchId, EndpointId, MemberId
from bough.store import schema
from bough.store.postgres import PostgresStore
from bough.store.sqlite import SqliteStore
from bough.store.tables import metadata
from support.postgres import PostgresServer
from support.stores import BACKENDS, make_project, open_store


def _differences(connection: sa.Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


@pytest.mark.parametrize("back_end", BACKENDS)
async def test_the_migrations_end_at_the_tables(back_end: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    async with open_store(back_end, tmp_path, postgres_server) as store:
        if isinstance(store, SqliteStore):
            with store._writer.connect() as connection:
                assert _differences(connection) == []
        else:
            assert isinstance(store, PostgresStore)
            async with store._engine.connect() as shared:
                assert await shared.run_sync(_differences) == []


async def test_a_second_start_changes_nothing_and_keeps_the_rows(tmp_path: Path) -> None:
    project = make_project()
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    async with store.transaction() as rows:
        await rows.projects.add(project)
    await store.close()
    again = SqliteStore(tmp_path / "store.db")
    await again.open()
    async with again.read() as rows:
        assert await rows.projects.get(project.id) == project
    await again.close()
    assert [path.name for path in tmp_path.glob("*.before-*")] == []


async def test_projects_with_the_former_window_get_one_of_their_own(tmp_path: Path) -> None:
    former = {"weekdays": [7], "start_time": "03:00", "end_time": "04:00"}
    chosen = {"weekdays": [7], "start_time": "03:00", "end_time": "05:00"}
    untouched, changed = (
        make_project(settings={"maintenance_window": chosen, "hipaa": False}),
        make_project(settings={"maintenance_window": former, "hipaa": False}),
    )
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    async with store.transaction() as rows:
        for project in (untouched, changed):
            await rows.projects.add(project)
    await store.close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("drop table maintenance")
        before = schema.revisions()[schema.revisions().index("0014") - 1]
        connection.execute("update alembic_version set version_num = ?", [before])
    connection.close()
    again = SqliteStore(tmp_path / "store.db")
    await again.open()
    async with again.read() as rows:
        kept, moved = await rows.projects.get(untouched.id), await rows.projects.get(changed.id)
    await again.close()
    assert kept == untouched
    assert moved is not None
    window = choose_default(changed.id, range(1, 8), (0, 6)).to_settings()
    assert moved.settings == {"maintenance_window": window, "hipaa": False}


async def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    await store.close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    connection.close()
    newer = SqliteStore(tmp_path / "store.db")
    with pytest.raises(PreconditionFailed, match="newer version of Bough"):
        await newer.open()
    await newer.close()


async def test_an_upgrade_backs_the_file_up_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    await store.close()
    known = schema.revisions()
    monkeypatch.setattr(schema, "revisions", lambda: [*known, "9998"])
    monkeypatch.setattr(schema, "_migrate", lambda _connection, _to: None)
    upgraded = SqliteStore(tmp_path / "store.db")
    await upgraded.open()
    await upgraded.close()
    backup = tmp_path / f"store.db.before-{known[-1]}"
    with sqlite3.connect(backup) as connection:
        assert connection.execute("select count(*) from users").fetchone() == (1,)
    connection.close()
    assert backup.stat().st_mode & 0o777 == 0o600


async def test_the_store_file_is_ours_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    await store.close()
    assert (tmp_path / "store.db").stat().st_mode & 0o777 == 0o600


def test_every_revision_has_its_number_and_follows_the_one_before() -> None:
    known = schema.revisions()
    assert known == [f"{number:04}" for number in range(1, len(known) + 1)]


async def test_a_migration_that_is_cut_leaves_nothing_and_is_made_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise RuntimeError("cut here")

    store = SqliteStore(tmp_path / "store.db")
    with monkeypatch.context() as during, pytest.raises(RuntimeError, match="cut here"):
        during.setattr(op, "bulk_insert", cut)
        await store.open()
    await store.close()
    again = SqliteStore(tmp_path / "store.db")
    await again.open()
    async with again.read() as rows:
        assert await rows.users.get(OPERATOR) is not None
    await again.close()


async def test_two_controls_that_start_together_migrate_once(postgres_server: PostgresServer) -> None:
    url = await postgres_server.create_database(f"store_{uuid.uuid4().hex}")
    both = [PostgresStore(url), PostgresStore(url)]
    await asyncio.gather(*(store.open() for store in both))
    for store in both:
        async with store.read() as rows:
            assert await rows.users.get(OPERATOR) is not None
        await store.close()


async def test_roles_that_postgres_was_never_told_of_are_wishes_after_the_upgrade(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    with engine.connect() as connection:
        schema.upgrade(connection, backup=None, to="0002")
        for name, state in (("new", "init"), ("old", "idle")):
            for statement in _old_rows(name, state):
                connection.execute(sa.text(statement))
        connection.commit()
    engine.dispose()
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    async with store.read() as rows:
        (new,) = await rows.roles.list_in_branch(BranchId("br-new"))
        (old,) = await rows.roles.list_in_branch(BranchId("br-old"))
        assert (new.is_pending, old.is_pending) == (True, False)
        assert (old.verifier, old.valid_until) == ("verifier", None)
        used = await rows.usage.get(EndpointId("ep-old"))
        assert used is not None
        assert (used.project_id, used.bytes_in, used.counted_at) == ("p-old", 0, None)
    await store.close()
    assert (tmp_path / "store.db.before-0002").exists()


@pytest.mark.parametrize("back_end", BACKENDS)
async def test_members_have_ids_of_their_own_after_the_upgrade(
    back_end: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """The first revision created the operator's membership, before members had ids."""
    async with open_store(back_end, tmp_path, postgres_server) as store, store.read() as rows:
        organization = await rows.organizations.get_personal(OPERATOR)
        assert organization is not None
        found = await rows.members.get_by_user(organization.id, OPERATOR)
        assert found is not None
        assert MemberId.parse(found.member.id) == found.member.id
        assert found.user.password_digest is None


def _old_rows(name: str, state: str) -> list[str]:
    """SQL for a project in an earlier schema, with placeholder values in columns that do not matter here."""
    moments = "1, 1"
    return [
        "insert into projects (id, org_id, created_by, name, search_key, region_id, pg_version, install, provisioner, "
        "settings, default_endpoint_settings, store_passwords, history_retention_seconds, creation_source, created_at, "
        f"updated_at) values ('p-{name}', 'org-operator', '{OPERATOR}', 'p', 'p', 'r', 17, 'i', 'l', '{{}}', '{{}}', "
        f"1, 0, 'api', {moments})",
        f"insert into volumes (id, project_id, created_at) values ('vol-{name}', 'p-{name}', 1)",
        "insert into branches (id, project_id, name, state, state_changed_at, volume_id, is_default, is_protected, "
        "creation_source, init_source, annotations, created_by, created_at, updated_at) values "
        f"('br-{name}', 'p-{name}', 'main', 'ready', 1, 'vol-{name}', 1, 0, 'api', 'x', '{{}}', '{OPERATOR}', "
        f"{moments})",
        "insert into endpoints (id, project_id, branch_id, type, state, min_cu, max_cu, settings, pooler_enabled, "
        "disabled, passwordless_access, suspend_timeout_seconds, provisioner, creation_source, created_at, updated_at) "
        f"values ('ep-{name}', 'p-{name}', 'br-{name}', 'read_write', '{state}', 1, 1, '{{}}', 0, 0, 1, 0, 'l', 'api', "
        f"{moments})",
        "insert into roles (branch_id, name, verifier, is_protected, created_at, updated_at) values "
        f"('br-{name}', 'owner', 'verifier', 0, {moments})",
    ]
