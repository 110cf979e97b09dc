"""Private networks of the operator, and the reasons for which a project rejects a client."""

import pytest

from bough.domain.private_networks import BlockedNetworks, PrivateNetworks


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.9.8.7", "172.31.0.1", "192.168.1.1", "169.254.7.7", "::1", "fd00::1", "fe80::1%eth0"]
)
def test_private_addresses_without_a_setting(address: str) -> None:
    assert PrivateNetworks().contains(address)


@pytest.mark.parametrize("address", ["192.0.2.1", "172.32.0.1", "8.8.8.8", "100.64.0.1", "2001:db8::1", "::2"])
def test_public_addresses_without_a_setting(address: str) -> None:
    assert not PrivateNetworks().contains(address)


def test_the_setting_replaces_the_default_networks() -> None:
    networks = PrivateNetworks(["100.64.0.0/10", "2001:db8::/32"])
    assert networks.is_set
    assert networks.contains("100.64.0.1")
    assert networks.contains("2001:db8::1")
    assert not networks.contains("127.0.0.1")
    assert not PrivateNetworks([]).contains("127.0.0.1")
    assert PrivateNetworks([]).is_set
    assert not PrivateNetworks().is_set


@pytest.mark.parametrize("is_private", [True, False])
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_a_client_is_rejected_only_in_a_blocked_network(*, is_private: bool, public: bool, private: bool) -> None:
    blocked = BlockedNetworks.from_settings({"block_public_connections": public, "block_vpc_connections": private})
    assert BlockedNetworks.from_json(blocked.to_json()) == blocked
    reason = blocked.explain(is_private=is_private)
    assert (reason is not None) == (private if is_private else public)
    if reason is not None:
        assert "Connections from this network are blocked" in reason
        expected = {"block_public_connections": public, "block_vpc_connections": private}
        for setting, is_set in expected.items():
            assert (setting in reason) == (is_set and ((public and private) or setting == _setting(is_private)))


def _setting(is_private: bool) -> str:
    return "block_vpc_connections" if is_private else "block_public_connections"


def test_nothing_is_blocked_without_settings() -> None:
    assert BlockedNetworks.from_settings({}) == BlockedNetworks.from_json({}) == BlockedNetworks()
