"""Rule 11: the gateway and the computes allow the same output plugins."""

from bough.gateway.wire import replication
from bough.postgres import output_plugins


def test_both_allow_the_same_output_plugins() -> None:
    assert {name.decode() for name in replication.OUTPUT_PLUGINS} == set(output_plugins.ALLOWED)
