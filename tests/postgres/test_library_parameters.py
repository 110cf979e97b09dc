"""The parameters that decide which libraries a server loads."""

from bough.domain.output_plugins import OUTPUT_PLUGINS
from bough.postgres import library_parameters
from bough.postgres.extensions import catalog
from bough.postgres.tenant_settings.reserved import RESERVED_SETTINGS


def test_only_known_ones_are_arguments() -> None:
    known = {"dynamic_library_path", "shared_preload_libraries", "work_mem"}
    assert library_parameters.build_arguments({"work_mem": "1MB"}, known) == {
        "dynamic_library_path": "$libdir",
        "shared_preload_libraries": "",
    }


def test_the_settings_of_a_compute_come_first() -> None:
    settings = {"shared_preload_libraries": "pg_stat_statements"}
    assert library_parameters.build_arguments(settings, library_parameters.DEFAULTS) == {
        **library_parameters.DEFAULTS,
        **settings,
    }


def test_servers_that_check_output_plugins_allow_those_of_ours() -> None:
    assert library_parameters.DEFAULTS["output_plugin_libraries"] == ", ".join(OUTPUT_PLUGINS)


def test_the_output_plugins_of_the_catalog_are_allowed() -> None:
    offered = {each.output_plugin for each in catalog.EXTENSIONS if each.output_plugin and each.is_allowed}
    assert offered == set(OUTPUT_PLUGINS) - {"pgoutput", "test_decoding"}


def test_a_tenant_sets_none_of_them_for_an_endpoint() -> None:
    assert library_parameters.DEFAULTS.keys() <= RESERVED_SETTINGS.keys()
