"""Changes to the files of an extension."""

from bough.postgres.extensions.extension import Extension
from bough.postgres.quoting import literal

_UNAVAILABLE = "unavailable"  # the version of an extension that a build does not contain


def mark_trusted(text: str) -> str:
    """Return an extension's control file with `trusted = true`, whatever its current value."""
    return _set(text, "trusted", "true")


def mark_unprivileged(text: str) -> str:
    """Return an extension's control file with which its scripts run as the role that creates it."""
    return _set(text, "superuser", "false")


def without_directory(text: str) -> str:
    """Return an extension's control file with which its scripts are beside it."""
    return _without(text, "directory")


def extend_script(text: str, addition: str) -> str:
    """Return an extension's script with the additional statements, which are added only once."""
    return text if text.endswith(addition) else f"{text}\n{addition}"


def build_unavailable_files(extension: Extension, *, has_plugin: bool) -> dict[str, str]:
    """Return the files of an extension that CREATE EXTENSION refuses with the reason."""
    if has_plugin:
        message = f'"{extension.name}" is an output plugin for logical decoding, which needs no CREATE EXTENSION'
        hint = (
            "Enable logical replication in the settings of the project (enable_logical_replication), then: "
            f"select pg_create_logical_replication_slot('NAME', '{extension.output_plugin}')"
        )
    elif extension.is_allowed:
        message = f'the extension "{extension.name}" is not part of this build of Postgres'
        hint = (
            "`bough postgres update` brings a build that contains it."
            if extension.is_in_default_build
            else f"The operator of the platform can add it: `bough extensions add {extension.name}`. "
            "If that is done, restart the endpoint."
        )
    else:
        message, hint = f'the extension "{extension.name}" is not offered', extension.review
    comment = message[0].upper() + message[1:].replace('"', "")
    script = (
        f"do $bough$ begin raise feature_not_supported using message = {literal(message)}, hint = {literal(hint)}; "
        "end $bough$;\n"
    )
    control = f"comment = '{comment}'\ndefault_version = '{_UNAVAILABLE}'\nsuperuser = false\n"
    return {f"{extension.name}.control": control, f"{extension.name}--{_UNAVAILABLE}.sql": script}


def is_available(control: str) -> bool:
    """Return whether a control file is that of an extension which the build contains."""
    return f"default_version = '{_UNAVAILABLE}'" not in control


def _set(text: str, name: str, value: str) -> str:
    return f"{_without(text, name)}{name} = {value}\n"


def _without(text: str, name: str) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if line.partition("=")[0].strip() != name)
