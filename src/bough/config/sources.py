"""Reads the settings from flags, `BOUGH_…` variables and `bough.toml` in the home.

The error for an unknown or invalid setting names it.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bough.config.home import default_home
from bough.config.settings import Settings
from bough.errors import InvalidSetting

FILE_NAME = "bough.toml"
VARIABLE_PREFIX = "BOUGH_"
IGNORED_VARIABLES = frozenset({"BOUGH_REQUIRE"})  # read by the test suite, never by the platform


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Merge the sources: flags override variables, which override the file, which overrides the defaults."""
    environment = os.environ if environment is None else environment
    given_flags = {name: value for name, value in flags.items() if value is not None}
    variables = _from_environment(environment)
    home = Path(given_flags.get("home") or variables.get("home") or default_home()).expanduser().absolute()
    merged = {**_from_file(home / FILE_NAME), **variables, **given_flags, "home": home}
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise InvalidSetting(_describe(error)) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(VARIABLE_PREFIX) or variable in IGNORED_VARIABLES:
            continue
        name = variable.removeprefix(VARIABLE_PREFIX).lower()
        _check_known(name, f"the variable {variable}")
        values[name] = _parse_value(name, text, variable)
    return values


def _parse_value(name: str, text: str, variable: str) -> Any:
    """Parse lists and tables as TOML values; return all other values unchanged."""
    if name in {"regions", "plans", "postgres_versions", "project_uids", "trusted_proxies", "private_networks"}:
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise InvalidSetting(f"{variable}: write the value as in {FILE_NAME}, for example [17, 16].") from None
    return text


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{path} is not valid TOML: {error}.") from None
    for name in values:
        _check_known(name, str(path))
        if name == "home":
            raise InvalidSetting(f"{path}: 'home' cannot be set inside the home; use --home or BOUGH_HOME.")
    return values


def _check_known(name: str, where: str) -> None:
    if name in Settings.model_fields:
        return
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else " List the settings with `bough config`."
    raise InvalidSetting(f"{where}: there is no setting {name!r}.{hint}")


def _describe(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"The setting {where!r} is invalid: {message}." if where else f"Invalid settings: {message}."
