"""Files and statements as text: quoting, plans, verifiers."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.postgres import databases, pg_hba, postgresql_conf, quoting, roles, storage, template
from bough.postgres.extensions import contrib, extension_files
from bough.postgres.scram import scram_verifier

NAMES = st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1)


@given(NAMES)
def test_an_identifier_cannot_end_its_quotes(name: str) -> None:
    quoted = quoting.identifier(name)
    assert quoted[0] == quoted[-1] == '"'
    assert '"' not in quoted[1:-1].replace('""', "")


@given(NAMES)
def test_a_literal_cannot_end_its_quotes(text: str) -> None:
    quoted = quoting.literal(text)
    inner = quoted[quoted.index("'") + 1 : -1].replace("''", "")
    assert "'" not in inner
    assert ("\\" in text) == quoted.lstrip().startswith("E'")


def test_a_setting_cannot_start_a_new_line() -> None:
    assert "work_mem = '4MB'\n" in postgresql_conf.render({"work_mem": "4MB"}, major=17)
    assert "x = 'it''s \\\\n'\n" in postgresql_conf.render({"x": "it's \\n"}, major=17)
    with pytest.raises(ValueError, match="line break"):
        postgresql_conf.render({"x": "a\nshared_preload_libraries = 'evil'"}, major=17)


def test_given_settings_stand_over_ours() -> None:
    assert "max_wal_senders = '3'\n" in postgresql_conf.render({"max_wal_senders": "3"}, major=17)
    assert "max_wal_senders = '20'" not in postgresql_conf.render({"max_wal_senders": "3"}, major=17)


def test_only_who_follows_another_reads_ahead_of_its_recovery() -> None:
    """The setting was added in version 15; an earlier server would not start with it."""
    off = "recovery_prefetch = 'off'\n"
    assert [off in postgresql_conf.render({}, major=major) for major in (14, 15, 17)] == [False, True, True]
    assert "recovery_prefetch" not in postgresql_conf.render({}, major=17, is_standby=True)


def test_the_map_lets_the_gateway_be_anyone_but_us() -> None:
    text = pg_hba.render_ident(major=17, control_user="root", gateway_user="gate", roles=["ignored"])
    others = "/^(?!bough_).*$"
    assert text == f'bough "root" "bough_admin"\nbough "gate" "{others}"\nbough "root" "{others}"\n'
    older = pg_hba.render_ident(major=15, control_user="root", gateway_user="gate", roles=['o"dd'])
    assert older == 'bough "root" "bough_admin"\nbough "gate" "o""dd"\nbough "root" "o""dd"\n'
    assert pg_hba.render_hba() == "local replication bough_replica scram-sha-256\nlocal all all peer map=bough\n"


def test_who_is_control_and_gateway_at_once_is_named_once() -> None:
    text = pg_hba.render_ident(major=17, control_user="me", gateway_user="me", roles=[])
    assert text == 'bough "me" "bough_admin"\nbough "me" "/^(?!bough_).*$"\n'


def test_a_verifier_proves_its_password() -> None:
    verifier = scram_verifier("pencil", salt=b"0123456789abcdef")
    scheme, parameters, proofs = verifier.split("$")
    iterations, salt = parameters.split(":")
    stored, server = (base64.b64decode(part) for part in proofs.split(":"))
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", base64.b64decode(salt), int(iterations))
    assert scheme == "SCRAM-SHA-256"
    assert hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest() == stored
    assert hmac.digest(salted, b"Server Key", "sha256") == server
    assert scram_verifier("pencil") != scram_verifier("pencil")


def test_roles_are_planned_from_what_is_there() -> None:
    fresh = {"neondb_owner": None, "bough_admin": None}
    assert roles.plan_roles({"neondb_owner": "v"}, fresh, spare="neondb_owner", major=17) == [
        'alter role "neondb_owner" noreplication',
        "update pg_catalog.pg_authid set rolpassword = 'v' where rolname = 'neondb_owner'",
    ]
    assert roles.plan_roles({"app": "v"}, fresh, spare="neondb_owner", major=17) == [
        'alter role "neondb_owner" noreplication',
        'alter role "neondb_owner" rename to "app"',
        "update pg_catalog.pg_authid set rolpassword = 'v' where rolname = 'app'",
    ]
    assert roles.plan_roles({"app": "v"}, {"app": "v"}, spare=None, major=17) == []
    assert roles.plan_roles({"app": "v"}, {"app": "older"}, spare=None, major=17) == [
        "update pg_catalog.pg_authid set rolpassword = 'v' where rolname = 'app'"
    ]
    created = roles.plan_roles({"app": "v"}, {}, spare=None, major=17)
    assert created[0].startswith('create role "app" login createdb createrole')
    assert "nocreaterole" in roles.plan_roles({"app": "v"}, {}, spare=None, major=15)[0]


def test_databases_are_planned_from_what_is_there() -> None:
    assert databases.plan_databases({"neondb": "o"}, {"neondb", "postgres"}, spare="neondb") == []
    assert databases.plan_databases({"shop": "o"}, {"neondb"}, spare="neondb") == [
        'alter database "neondb" rename to "shop"',
        'alter database "shop" owner to "o"',
    ]
    assert databases.plan_databases({"a": "o", "b": "o"}, set(), spare=None) == [
        'create database "a" owner "o"',
        'create database "b" owner "o"',
    ]


def test_the_template_is_made_the_same_way_for_every_version_it_can() -> None:
    assert "--locale-provider=builtin" in template.initdb_arguments(17)
    assert "--locale-provider=builtin" not in template.initdb_arguments(16)
    assert any("pg_maintain" in statement for statement in template.setup_statements(17))
    assert not any("pg_create_subscription" in statement for statement in template.setup_statements(15))


def test_no_extension_is_both_trusted_and_dropped() -> None:
    assert not contrib.TRUSTED & contrib.REMOVED
    assert extension_files.mark_trusted("a = 1\ntrusted=false\n") == "a = 1\ntrusted = true\n"


def test_limits_follow_from_the_plan() -> None:
    def limits(storage_bytes: int, **given: str) -> list[str]:
        return [line.split(" = ")[1] for line in storage.render_limits(storage_bytes, given).splitlines()]

    assert storage.render_limits(None, {}) == "", "a spare compute has no plan yet"
    assert limits(4 << 20) == ["'65536kB'", "'64MB'"]
    assert limits(512 << 20) == ["'262144kB'", "'512MB'"]
    assert limits(512 << 20, max_slot_wal_keep_size="2GB") == ["'262144kB'", "'512MB'"]
    assert limits(16 << 40) == ["'2147483647kB'", "'4096MB'"]
    assert limits(16 << 40, max_slot_wal_keep_size="16GB") == ["'2147483647kB'", "'16384MB'"]


def test_what_is_added_to_the_script_of_an_extension_is_added_once() -> None:
    addition = contrib.SCRIPT_ADDITIONS["postgres_fdw--1.0.sql"]
    once = extension_files.extend_script("create something;", addition)
    assert once == f"create something;\n{addition}"
    assert extension_files.extend_script(once, addition) == once
