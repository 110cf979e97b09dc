"""`bough config`."""

import json as json_text
import os
import tomllib
from collections.abc import Mapping
from typing import Any

from bough import config as settings_of
from bough import log
from bough.cli import options, output
from bough.supervisor import ports

MAX_SHOWN_LENGTH = 40  # letters; a longer value is shown in --json only


def config(home: options.Home = None, json: options.Json = False) -> None:
    """Show every setting, and where its value comes from.

    Flags of `bough up` win over BOUGH_… variables, those over bough.toml in the home, and that over
    the defaults.
    """
    flags = {"home": home}
    settings = settings_of.load_settings(flags)
    values = {**settings.model_dump(mode="json"), **_kept_ports(settings)}
    sources = {name: _source(name, flags, settings) for name in values}
    if json:
        output.print_json(
            {
                name: {"value": _shown(value), "from": sources[name], "description": _description(name)}
                for name, value in values.items()
            }
        )
        return
    rows = [(name, _in_words(value), sources[name], _description(name)) for name, value in values.items()]
    output.print_table([("setting", "value", "from", "meaning"), *rows])


def _kept_ports(settings: settings_of.Settings) -> dict[str, int]:
    return {name: port for name, port in ports.load_ports(settings).items() if getattr(settings, name) is None}


def _source(name: str, flags: Mapping[str, Any], settings: settings_of.Settings) -> str:
    if flags.get(name) is not None:
        return "flag"
    if settings_of.VARIABLE_PREFIX + name.upper() in os.environ:
        return "variable"
    if name in _written_in_file(settings):
        return "file"
    return "first start" if name in _kept_ports(settings) else "default"


def _written_in_file(settings: settings_of.Settings) -> dict[str, Any]:
    file = settings.home / settings_of.FILE_NAME
    return tomllib.loads(file.read_text()) if file.exists() else {}


def _description(name: str) -> str:
    return settings_of.Settings.model_fields[name].description or ""


def _shown(value: Any) -> Any:
    return log.redact(value) if isinstance(value, str) else value


def _in_words(value: Any) -> str:
    if value is None:
        return "-"
    text = _shown(value) if isinstance(value, str) else json_text.dumps(value)
    return text if len(text) <= MAX_SHOWN_LENGTH or isinstance(value, str) else f"{len(value)} (see --json)"
