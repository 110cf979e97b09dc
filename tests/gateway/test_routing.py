"""The target of a connection, from everything that clients can send."""

import pytest

from bough.errors import Invalid
from bough.gateway.routing import ConnectionTarget, resolve_target
from bough.gateway.wire.replication import ReplicationMode

EP = "ep-calm-sea-1a2b3c4d"
HOST = f"{EP}.us-east-2.aws.localhost"
USER = {"user": "alice"}


def to(host: str | None = None, *, domain: str = "localhost", **parameters: str) -> ConnectionTarget:
    return resolve_target(host, domain, {**USER, **parameters})


@pytest.mark.parametrize(
    ("host", "pooled"),
    [
        (HOST, False),
        (f"{EP}-pooler.us-east-2.aws.localhost", True),
        (HOST.upper(), False),
        (f"{HOST}.", False),
        (f"{EP}.localhost", False),
    ],
)
def test_the_host_says_it(host: str, pooled: bool) -> None:
    found = to(host)
    assert (found.endpoint, found.is_pooled) == (EP, pooled)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost",
        "us-east-2.aws.localhost",
        "console.localhost",
        "127.0.0.1",
        "::1",
        EP,
        f"{EP}.us-east-2.aws.elsewhere.example",
        f"{EP}.notlocalhost",
        f"{EP}.localhost.evil.example",
        "bough",
        ".",
    ],
)
def test_other_hosts_say_nothing(host: str | None) -> None:
    found = to(host)
    assert (found.endpoint, found.is_pooled) == (None, False)


def test_a_domain_may_be_written_in_capitals() -> None:
    assert to(f"{EP}.us-east-2.aws.db.example.com", domain="DB.Example.com").endpoint == EP


def test_a_host_that_can_be_no_endpoint() -> None:
    for label in (f"ep-{'a' * 60}", "ep-ä", "ep-a_b"):
        with pytest.raises(Invalid):
            to(f"{label}.us-east-2.aws.localhost")


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (f"endpoint={EP}", None),
        (f"project={EP}", None),
        (f"  endpoint={EP}  ", None),
        (f"-c endpoint={EP}", None),
        (f"-cendpoint={EP}", None),
        (f"--endpoint={EP}", None),
        (f"endpoint={EP} -c geqo=off", "-c geqo=off"),
        (f"-c geqo=off endpoint={EP}", "-c geqo=off"),
        (f"-c geqo=off -c endpoint={EP} --work_mem=8MB", "-c geqo=off --work_mem=8MB"),
        (f"-c application_name=a\\ endpoint=x endpoint={EP}", "-c application_name=a\\ endpoint=x"),
        (f"-c search_path=a\\\\ endpoint={EP}", "-c search_path=a\\\\"),
        ("endpoint=ep\\-calm-sea-1a2b3c4d\t-c\n geqo=off\\", "-c geqo=off"),
        (f"endpoint={EP} project={EP}", None),
    ],
)
def test_the_options_say_it_and_postgres_does_not_hear_it(options: str, left: str | None) -> None:
    found = to(options=options)
    assert found.endpoint == EP
    assert found.parameters.get("options") == left


@pytest.mark.parametrize(
    "options", ["-c geqo=off", "-c  search_path=endpoint=x ", "endpoint", "-c a=b\\ endpoint=c", "endpoint\u00a0=x"]
)
def test_options_that_name_none_stay_as_they_are(options: str) -> None:
    found = to(options=options)
    assert found.endpoint is None
    assert found.parameters == {"options": options}


def test_pooled_by_option() -> None:
    assert to(options=f"endpoint={EP}-pooler").is_pooled
    assert to(f"{EP}-pooler.localhost", options=f"endpoint={EP}").is_pooled


def test_host_and_options_must_agree() -> None:
    assert to(HOST, options=f"endpoint={EP}").endpoint == EP
    assert to("localhost", options=f"endpoint={EP}").endpoint == EP
    with pytest.raises(Invalid, match="ep-other"):
        to(HOST, options="endpoint=ep-other")
    with pytest.raises(Invalid, match="more than one"):
        to(options=f"endpoint={EP} endpoint=ep-other")


@pytest.mark.parametrize("name", ["", "EP-A", "a b", "x" * 61, "ep-\u00e4", "'; drop"])
def test_options_that_name_what_can_be_no_endpoint(name: str) -> None:
    with pytest.raises(Invalid):
        to(options=f"endpoint={name}".replace(" ", "\\ "))


def test_a_user_is_needed_and_is_the_database_by_default() -> None:
    for parameters in ({}, {"user": ""}, {"database": "shop"}):
        with pytest.raises(Invalid, match="user"):
            resolve_target(None, "localhost", parameters)
    assert to().database == "alice"
    assert to(database="").database == "alice"
    found = to(database="shop", application_name="x")
    assert (found.role, found.database, found.parameters) == ("alice", "shop", {"application_name": "x"})


def test_long_names_are_cut_as_postgres_cuts_them() -> None:
    found = resolve_target(None, "localhost", {"user": "a" * 70, "database": "ä" * 40})
    assert (found.role, found.database) == ("a" * 63, "ä" * 31)


def test_names_that_are_not_utf_8() -> None:
    for name in ("user", "database"):
        with pytest.raises(Invalid, match="UTF-8"):
            to(**{name: "caf\udce9"})
    assert to(application_name="caf\udce9").parameters == {"application_name": "caf\udce9"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [("database", ReplicationMode.LOGICAL)]
    + [(yes, ReplicationMode.PHYSICAL) for yes in ("true", "on", "1", "YES", "Database")]
    + [(no, ReplicationMode.NONE) for no in ("", "0", "no", "n", "f", "of", "Fal", "false", "OFF")],
)
def test_replication_is_seen_and_passed_on(value: str, kind: ReplicationMode) -> None:
    found = to(replication=value)
    assert found.replication_mode is kind
    assert found.parameters["replication"] == value
    assert to().replication_mode is ReplicationMode.NONE


def test_options_of_the_clients_own_library_are_no_settings_of_postgres() -> None:
    found = to(HOST, channel_binding="require", sslmode="require", connect_timeout="10", application_name="shop")
    assert found.parameters == {"application_name": "shop"}
