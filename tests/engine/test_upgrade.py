"""Files as the first version wrote them, next to a compute that it left running."""

import os
import pwd
from pathlib import Path

from bough.engine.local.engine import LocalEngine
from bough.engine.port import Readiness
from bough.engine.spec import RoleSpec
from support.engine_home import VERIFIER, Compute, EngineHome, process_exists

RUN = (
    '{{"endpoint_id": "{endpoint}", "project_id": "{project}", "volume_id": "{volume}", '
    '"install": "{install}", "settings": "{digest}", "pid": {pid}}}'
)
VOLUME = '{{"project_id": "{project}", "install": "{install}", "applied": "{digest}"}}'
IDENT = 'bough "{user}" "bough_admin"\nbough "{user}" "/^(?!bough_).*$"\n'
UNKNOWN_DIGEST = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"


def write_old_files(compute: Compute) -> None:
    """Replace the files of the compute by those that the first version wrote."""
    spec, home = compute.spec, compute.home.settings.home
    words = {
        "endpoint": spec.endpoint_id,
        "project": spec.project_id,
        "volume": spec.volume_id,
        "install": spec.install,
        "digest": UNKNOWN_DIGEST,
        "pid": compute.pid,
        "user": pwd.getpwuid(os.geteuid()).pw_name,
    }
    (home / "run" / f"{spec.endpoint_id}.json").write_text(RUN.format(**words))
    (compute.volume_folder / "volume.json").write_text(VOLUME.format(**words))
    (compute.volume_folder / "conf" / "pg_ident.conf").write_text(IDENT.format(**words))
    for path in compute.volume_folder.iterdir():
        if path.name not in ("data", "conf", "volume.json"):
            path.unlink()


async def upgrade(home: EngineHome) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


async def test_a_compute_of_the_first_version_is_adopted_and_goes_on(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create table kept as select 7 as n")
    pid = compute.pid
    write_old_files(compute)
    await upgrade(home)

    seen = await home.engine.observe()
    assert compute.spec.endpoint_id in seen.running_endpoints
    assert compute.spec.volume_id in seen.volumes
    assert compute.pid == pid
    assert await compute.fetch_value("select n from kept") == 7
    async with compute.connect() as session:
        assert await compute.start() is Readiness.READY  # a reload applies its settings
        assert await session.fetchval("select 1") == 1
    assert compute.pid == pid
    await compute.suspend()
    assert not process_exists(pid)


async def test_its_roles_are_known_and_new_ones_are_made(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("alter role neondb_owner password 'changed with SQL'")
    write_old_files(compute)
    await upgrade(home)
    await compute.start()
    await compute.start(roles=(*compute.spec.roles, RoleSpec(name="writer", verifier=VERIFIER)))
    assert await compute.fetch_value("select current_user::text", role="writer") == "writer"


async def test_a_volume_that_was_never_started_is_taken_over_as_fresh(home: EngineHome) -> None:
    compute = await home.create_branch()
    record = '{"project_id": "%s", "install": "%s", "applied": null}'
    (compute.volume_folder / "volume.json").write_text(record % (compute.spec.project_id, compute.spec.install))
    await upgrade(home)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select current_database()::text") == "neondb"


async def test_one_that_died_before_the_upgrade_is_forgotten_and_started_anew(home: EngineHome) -> None:
    compute = await home.create_compute()
    write_old_files(compute)
    await compute.kill()
    await upgrade(home)
    assert compute.spec.endpoint_id not in (await home.engine.observe()).running_endpoints
    assert not Path(home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").exists()
    assert await compute.start() is Readiness.READY
