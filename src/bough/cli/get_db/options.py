"""What the user wants: the options, completed by prompts at a terminal and by defaults elsewhere."""

from dataclasses import dataclass

import typer

from bough.cli.get_db import prompts
from bough.cli.get_db.dotenv import VARIABLE_NAME, VariableNames
from bough.errors import Invalid
from bough_client.transport import is_http_url

DEFAULT_ENV_FILE, DEFAULT_KEY, DEFAULT_PREFIX, DEFAULT_REF = "./.env", "DATABASE_URL", "PUBLIC_", "get-db"
DEFAULT_HOST, HOST_VARIABLE = "http://localhost:8432", "INSTANT_BASE_URL"


@dataclass(frozen=True, slots=True)
class GetDbOptions:
    """As they were typed; None was not."""

    env: str | None
    key: str | None
    prefix: str | None
    seed: str | None
    logical_replication: bool
    ref: str | None
    host: str


@dataclass(frozen=True, slots=True)
class GetDbRequest:
    env: str
    names: VariableNames
    seed: str | None
    logical_replication: bool
    ref: str
    host: str


def resolve_options(options: GetDbOptions, *, is_interactive: bool) -> GetDbRequest:
    """What was typed is checked before anything is asked."""
    for name in ("env", "key", "seed", "ref"):
        if getattr(options, name) == "":
            raise typer.BadParameter("It must not be empty.", param_hint=f"'--{name}'")
    host = _host(options.host)
    key = None if options.key is None else _key(options.key)
    prefix = None if options.prefix is None else _prefix(options.prefix)
    env, seed = options.env, options.seed
    if is_interactive:
        env = prompts.ask("Environment file", DEFAULT_ENV_FILE) if env is None else env
        key = prompts.ask("Variable for the connection string", DEFAULT_KEY, _key) if key is None else key
        prefix = prompts.ask("Prefix of public variables", DEFAULT_PREFIX, _prefix) if prefix is None else prefix
        seed = prompts.ask("SQL file to seed it with (empty for none)", "") if seed is None else seed
    return GetDbRequest(
        env=DEFAULT_ENV_FILE if env is None else env,
        names=_names(DEFAULT_KEY if key is None else key, DEFAULT_PREFIX if prefix is None else prefix),
        seed=seed or None,
        logical_replication=options.logical_replication,
        ref=DEFAULT_REF if options.ref is None else options.ref,
        host=host,
    )


def check_claim_options(options: GetDbOptions) -> None:
    """Options that do nothing would be a promise."""
    for name in ("key", "seed", "logical_replication", "ref"):
        if getattr(options, name):
            raise typer.BadParameter("It means nothing to `claim`.", param_hint=f"'--{name.replace('_', '-')}'")


def _host(text: str) -> str:
    if not is_http_url(text):
        raise Invalid(
            f"The address of the platform makes no sense; give --host or {HOST_VARIABLE} one like {DEFAULT_HOST}."
        )
    return text.rstrip("/")


def _key(text: str) -> str:
    if not VARIABLE_NAME.fullmatch(text):
        raise Invalid(f"{text!r} cannot name a variable (--key): take letters, digits and _, and no digit first.")
    return text


def _prefix(text: str) -> str:
    if text and not VARIABLE_NAME.fullmatch(text):
        raise Invalid(f"{text!r} cannot begin a variable (--prefix): take letters, digits and _, and no digit first.")
    return text


def _names(key: str, prefix: str) -> VariableNames:
    names = VariableNames(key, prefix)
    if names.claim_url in {names.key, names.direct}:
        raise Invalid(f"{names.claim_url} would be written twice; choose another --key or --prefix.")
    return names
