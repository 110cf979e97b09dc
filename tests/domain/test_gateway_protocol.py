"""The protocol between gateway and control: JSON that another version can read, and timeouts that nest."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

from bough.config import Settings
from bough.domain import gateway_protocol
from bough.domain.gateway_protocol import Access, AccessRequest, ComputeAddress, EndSessions, ErrorReply, WakeRequest
from bough.domain.gateway_reports import ActivityReport, EndpointReport, PoolReport, ReportReply
from bough.domain.pooler import PoolSettings
from bough.domain.private_networks import BlockedNetworks
from bough.errors import ErrorKind, Invalid
from bough.ids import EndpointId

ENDPOINT = EndpointId("ep-quiet-river-a1b2c3d4")
ACCESS = Access(
    verifier="SCRAM-SHA-256$4096:…",
    is_known=True,
    valid_until=datetime(2030, 1, 2, tzinfo=UTC),
    allowed_networks=("10.0.0.0/8",),
    rejection=None,
    pool_settings=PoolSettings(servers=3, wait_seconds=1.5),
    blocked_reason="limit",
    read_only_hint="hint",
    blocked_networks=BlockedNetworks(public=True),
    is_audited=True,
)
REPORT = ActivityReport(
    worker="w",
    sequence=7,
    endpoints=[EndpointReport(endpoint=ENDPOINT, bytes_in=1, pool=PoolReport(waits=2, waited_seconds=0.5))],
)
MESSAGES = [
    AccessRequest(endpoint=ENDPOINT, role="alice"),
    ACCESS,
    WakeRequest(endpoint=ENDPOINT),
    ComputeAddress(host="/run", port=5432),
    REPORT,
    ReportReply(changed=[ENDPOINT]),
    ErrorReply(kind=ErrorKind.NOT_FOUND, message="gone"),
    EndSessions(endpoints=[ENDPOINT], reason="restore"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives_json(message: Any) -> None:
    assert type(message).from_json(json.loads(json.dumps(message.to_json()))) == message


def test_the_keys_are_those_of_the_previous_version() -> None:
    keys = {"verifier", "is_known", "valid_until", "networks", "refusal", "pool", "closed", "read_only_hint"}
    keys |= {"closed_hint", "blocked_networks", "is_audited"}  # which older gateways ignore
    assert ACCESS.to_json().keys() == keys
    assert ACCESS.to_json()["valid_until"] == "2030-01-02T00:00:00Z"
    assert ACCESS.to_json()["pool"] == asdict(ACCESS.pool_settings)
    assert REPORT.to_json().keys() == {"worker", "sequence", "endpoints"}
    assert REPORT.to_json()["endpoints"] == [asdict(REPORT.endpoints[0])]
    assert ReportReply(changed=[]).to_json() == {"drop": []}
    assert EndSessions(endpoints=[], reason="why").to_json() == {"endpoints": [], "why": "why"}


def test_another_version_may_send_fewer_or_more_keys() -> None:
    older = {"verifier": "", "is_known": False, "valid_until": None, "networks": None, "refusal": None, "newer": 1}
    assert Access.from_json(older).pool_settings == PoolSettings()
    assert Access.from_json(older).blocked_networks == BlockedNetworks()
    assert Access.from_json({**older, "pool": {"servers": 3, "newer": 1}}).pool_settings == PoolSettings(servers=3)
    assert EndpointReport.from_json({"endpoint": ENDPOINT, "newer": 1}) == EndpointReport(endpoint=ENDPOINT)


@pytest.mark.parametrize("role", ["a\0", "a" * 1025, "\udcff", None, 7])
def test_a_role_that_cannot_be_stored_is_rejected(role: Any) -> None:
    with pytest.raises(Invalid, match="role must be a string"):
        AccessRequest.from_json({"endpoint": ENDPOINT, "role": role})


def test_each_wake_timeout_is_longer_than_the_one_inside_it() -> None:
    assert (
        Settings().wake_seconds
        < gateway_protocol.CLIENT_WAKE_TIMEOUT_SECONDS
        < gateway_protocol.WAKE_REPLY_TIMEOUT_SECONDS
    )
