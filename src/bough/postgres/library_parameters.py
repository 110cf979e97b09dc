"""The parameters of Postgres that decide which libraries a server loads, as arguments of its command line.

There they override postgresql.auto.conf, which a tenant's code can write. Statements can change them only as a
superuser, except `local_preload_libraries`, which loads nothing from outside the folder `plugins` of the build.
"""

from collections.abc import Collection, Mapping

from bough.domain.output_plugins import OUTPUT_PLUGINS

DEFAULTS = {
    "archive_library": "",
    "dynamic_library_path": "$libdir",
    "extension_control_path": "$system",  # since 18
    "extension_destdir": "",  # in builds of Debian
    "jit_provider": "llvmjit",
    "local_preload_libraries": "",
    "oauth_validator_libraries": "",  # since 18
    "output_plugin_libraries": ", ".join(OUTPUT_PLUGINS),  # in releases since August 2026
    "session_preload_libraries": "",
    "shared_preload_libraries": "",
}


def build_arguments(settings: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return these parameters, with the values of the settings, for a server that knows the parameters in `known`."""
    return {name: settings.get(name, default) for name, default in DEFAULTS.items() if name in known}
