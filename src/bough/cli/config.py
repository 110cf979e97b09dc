"""`bough config`."""

import json as json_text
import os
import tomllib
from collections.abc import Mapping
from typing import Any

from bough import config as settings_module
from bough import log
from bough.cli import options, output
from bough.config import Settings
from bough.supervisor import ports

MAX_SHOWN_LENGTH = 40  # characters; a longer list or table is shown only with --json


def config(home: options.Home = None, json: options.Json = False) -> None:
    """Show every setting and where its value comes from.

    The flags of `bough up` override BOUGH_… variables, which override bough.toml in the home, which
    overrides the defaults.
    """
    flags = {"home": home}
    settings = settings_module.load_settings(flags)
    values = {**settings.model_dump(mode="json"), **_saved_ports(settings)}
    sources = {name: _find_source(name, flags, settings) for name in values}
    if json:
        output.print_json(
            {
                name: {"value": _redact(value), "from": sources[name], "description": _description(name)}
                for name, value in values.items()
            }
        )
        return
    rows = [(name, _format_value(value), sources[name], _description(name)) for name, value in values.items()]
    output.print_table([("setting", "value", "from", "meaning"), *rows])


def _saved_ports(settings: Settings) -> dict[str, int]:
    return {name: port for name, port in ports.load_ports(settings).items() if getattr(settings, name) is None}


def _find_source(name: str, flags: Mapping[str, Any], settings: Settings) -> str:
    if flags.get(name) is not None:
        return "flag"
    if settings_module.VARIABLE_PREFIX + name.upper() in os.environ:
        return "variable"
    if name in _read_file(settings):
        return "file"
    return "first start" if name in _saved_ports(settings) else "default"


def _read_file(settings: Settings) -> dict[str, Any]:
    file = settings.home / settings_module.FILE_NAME
    return tomllib.loads(file.read_text()) if file.exists() else {}


def _description(name: str) -> str:
    return Settings.model_fields[name].description or ""


def _redact(value: Any) -> Any:
    return log.redact(value) if isinstance(value, str) else value


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    text = _redact(value) if isinstance(value, str) else json_text.dumps(value)
    return text if len(text) <= MAX_SHOWN_LENGTH or isinstance(value, str) else f"{len(value)} (see --json)"
