"""The settings of a tenant do not affect the platform's own sessions in its compute."""

import random

import pytest

from bough.domain.catalog_change import CreateDatabase, CreateRole, SetPassword
from bough.engine.port import Readiness
from bough.engine.spec import build_compute_settings
from bough.postgres import tenant_settings
from bough.postgres.scram import scram_verifier
from bough.postgres.tenant_settings.table import available_settings
from postgres.test_tenant_settings import is_accepted, some_text
from support.engine_home import DATABASE, ROLE, Compute, EngineHome, make_branch_spec

IMPATIENT = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "deadlock_timeout": "1ms",
    "idle_session_timeout": "1s",
    "idle_in_transaction_session_timeout": "1s",
    "transaction_timeout": "1s",
}
TALKATIVE = {
    "log_statement": "all",
    "log_duration": "on",
    "log_min_duration_statement": "0",
    "log_min_duration_sample": "0",
    "log_statement_sample_rate": "1",
    "log_transaction_sample_rate": "1",
    "log_min_error_statement": "info",
}
ODD = {
    "search_path": '"$user", evil',
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "off",
    "bytea_output": "escape",
    "datestyle": "German, DMY",
    "timezone": "Pacific/Chatham",
    "extra_float_digits": "-15",
    "intervalstyle": "sql_standard",
}


def build_settings(settings: dict[str, str]) -> dict[str, str]:
    tenant_settings.check_settings(settings, 17)
    return build_compute_settings(0.25, logical_replication=False, requested=settings)


async def change_all(compute: Compute, verifier: str) -> None:
    engine, branch = compute.home.engine, make_branch_spec(compute.spec)
    await engine.apply_change(branch, CreateRole(name="second", verifier=verifier))
    await engine.apply_change(branch, SetPassword(name=ROLE, verifier=verifier))
    await engine.apply_change(branch, CreateDatabase(name="other", owner="second"))


@pytest.mark.parametrize("choices", [IMPATIENT, TALKATIVE, ODD], ids=["impatient", "talkative", "odd"])
async def test_our_own_sessions_do_not_mind(home: EngineHome, choices: dict[str, str]) -> None:
    verifier = scram_verifier("a password that nobody shall read")
    compute = await home.create_compute(settings=build_settings(choices))
    engine, endpoint = home.engine, compute.spec.endpoint_id
    await change_all(compute, verifier)
    contents, usage = await engine.read_compute_contents(endpoint), await engine.measure_usage(endpoint)
    assert contents is not None and usage is not None
    assert {role.name: role.verifier for role in contents.roles} == {ROLE: verifier, "second": verifier}
    assert {each.name for each in contents.databases} == {DATABASE, "other"}
    assert not await engine.is_busy(endpoint)
    child = await home.create_child(compute)
    assert await child.start() is Readiness.READY
    assert verifier not in compute.log_file.read_text()


async def test_the_tenants_sessions_have_them(home: EngineHome) -> None:
    compute = await home.create_compute(settings=build_settings(ODD | TALKATIVE))
    async with compute.connect() as client:
        shown = {name: await client.fetchval(f"show {name}") for name in (ODD | TALKATIVE)}
    assert shown == {**ODD, **TALKATIVE, "log_min_duration_statement": "0", "log_min_duration_sample": "0"}


async def test_a_sleeping_branch_with_prepared_transactions_can_be_changed(home: EngineHome) -> None:
    compute = await home.create_compute(settings=build_settings({"max_prepared_transactions": "40"}))
    async with compute.connect() as client:
        await client.execute("create table kept (number int)")
        for number in range(40):
            await client.execute(f"begin; insert into kept values ({number}); prepare transaction 'of {number}'")
    await compute.suspend()
    await change_all(compute, scram_verifier("another"))
    await compute.start()
    assert await compute.fetch_value("select count(*) from pg_prepared_xacts") == 40


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_taken_a_compute_starts_with_it(home: EngineHome, seed: int) -> None:
    """Random combinations of all settings on the smallest compute, applied at a start, by a reload and by a restart."""
    dice = random.Random(seed)
    compute = await home.create_compute()
    choice = choose_settings(dice)
    assert await compute.start(settings=build_settings(choice)) is Readiness.READY
    await compute.suspend()
    assert await compute.start() is Readiness.READY
    assert await home.engine.read_compute_contents(compute.spec.endpoint_id) is not None


def choose_settings(dice: random.Random) -> dict[str, str]:
    chosen = {}
    for name, setting in available_settings(17).items():
        tries = (some_text(setting.value_type, dice) for _ in range(40))
        text = next((text for text in tries if is_accepted(name, text, 17)), None)
        if text is not None:
            chosen[name] = text
    return chosen
