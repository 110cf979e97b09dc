"""Ids, names, host names and connection URIs."""

import re
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain import database, role
from bough.domain.connection_uri import build_connection_uri
from bough.domain.endpoint import EndpointHosts
from bough.errors import Invalid
from bough.ids import BranchId, EndpointId, LineageId, OperationId, OrganizationId, ProjectId, VolumeId

KINDS = (ProjectId, BranchId, EndpointId, OrganizationId, VolumeId, LineageId)


@pytest.mark.parametrize("kind", KINDS)
def test_new_ids_have_the_published_form_and_are_parsed_back(kind: type[ProjectId]) -> None:
    made = {kind.new() for _ in range(200)}
    assert len(made) == 200
    for each in made:
        assert re.fullmatch(r"[a-z0-9-]{1,60}", each)
        assert kind.parse(each) == each


@pytest.mark.parametrize("text", ["", "UPPER", "a" * 61, "dot.dot", "sp ace", "ünï", "new\nline"])
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(Invalid):
        BranchId.parse(text)


def test_an_operation_is_a_uuid() -> None:
    assert OperationId.parse(OperationId.new())
    with pytest.raises(Invalid, match="UUID"):
        OperationId.parse("op-1")


@pytest.mark.parametrize(
    "name", ["postgres", "Public", "pg_x", "bough_admin", "BOUGH_x", "", "a" * 64, "é" * 32, "a\nb"]
)
def test_reserved_and_impossible_role_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid):
        role.check_name(name)


@pytest.mark.parametrize("name", ["postgres", "template1", "", "x" * 64])
def test_reserved_and_impossible_database_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid):
        database.check_name(name)


@pytest.mark.parametrize("name", ['we"ird', "o'brien", "semi;colon", "ünïcode", "a.b", "é" * 31, "x" * 63, "sp ace"])
def test_odd_but_possible_names_are_taken_as_they_are(name: str) -> None:
    assert role.check_name(name) == name
    assert database.check_name(name) == name


def test_the_port_is_part_of_the_host_only_when_it_is_not_the_usual_one() -> None:
    endpoint = EndpointId("ep-x")
    usual, other = EndpointHosts(domain="localhost", port=5432), EndpointHosts(domain="db.example", port=6000)
    assert usual.direct_host(endpoint, "aws-us-east-2") == "ep-x.us-east-2.aws.localhost"
    assert other.pooled_host(endpoint, "aws-us-east-2") == "ep-x-pooler.us-east-2.aws.db.example:6000"


@given(st.text(min_size=1).filter(lambda text: "\0" not in text), st.text(min_size=1))
def test_a_uri_gives_its_parts_back_and_its_first_dot_is_the_hosts(name: str, base: str) -> None:
    try:
        uri = build_connection_uri(role=name, password=role.new_password(), host="ep-x.region.cloud", database=base)
    except UnicodeEncodeError:
        return  # half a surrogate pair never gets this far
    parts = urlsplit(uri)
    assert unquote(parts.username or "") == name
    assert unquote(parts.path[1:]) == base
    assert uri.split(".", 1)[0].endswith("@ep-x")
