"""The options of `bough get-db`, completed with prompts at a terminal and with defaults elsewhere."""

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
    """The options as the user typed them; None means that an option was omitted."""

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
    """Check what the user typed before it prompts for the rest."""
    for name in ("env", "key", "seed", "ref"):
        if getattr(options, name) == "":
            raise typer.BadParameter("The value must not be empty.", param_hint=f"'--{name}'")
    host = _parse_host(options.host)
    key = None if options.key is None else _parse_key(options.key)
    prefix = None if options.prefix is None else _parse_prefix(options.prefix)
    env, seed = options.env, options.seed
    if is_interactive:
        env = prompts.ask("Environment file", DEFAULT_ENV_FILE) if env is None else env
        key = prompts.ask("Variable for the connection string", DEFAULT_KEY, _parse_key) if key is None else key
        prefix = prompts.ask("Prefix of public variables", DEFAULT_PREFIX, _parse_prefix) if prefix is None else prefix
        seed = prompts.ask("SQL file to seed the database with (empty for none)", "") if seed is None else seed
    return GetDbRequest(
        env=DEFAULT_ENV_FILE if env is None else env,
        names=_make_names(DEFAULT_KEY if key is None else key, DEFAULT_PREFIX if prefix is None else prefix),
        seed=seed or None,
        logical_replication=options.logical_replication,
        ref=DEFAULT_REF if options.ref is None else options.ref,
        host=host,
    )


def check_claim_options(options: GetDbOptions) -> None:
    """Reject options that would have no effect."""
    for name in ("key", "seed", "logical_replication", "ref"):
        if getattr(options, name):
            raise typer.BadParameter("`claim` does not accept this option.", param_hint=f"'--{name.replace('_', '-')}'")


def _parse_host(text: str) -> str:
    if not is_http_url(text):
        raise Invalid(
            f"The URL of the platform is invalid; set --host or {HOST_VARIABLE} to a URL like {DEFAULT_HOST}."
        )
    return text.rstrip("/")


def _parse_key(text: str) -> str:
    if not VARIABLE_NAME.fullmatch(text):
        raise Invalid(
            f"{text!r} is not a variable name (--key): use letters, digits and _, and do not start with a digit."
        )
    return text


def _parse_prefix(text: str) -> str:
    if text and not VARIABLE_NAME.fullmatch(text):
        raise Invalid(f"{text!r} cannot start a variable name (--prefix): use letters, digits and _, no digit first.")
    return text


def _make_names(key: str, prefix: str) -> VariableNames:
    names = VariableNames(key, prefix)
    if names.claim_url in {names.key, names.direct}:
        raise Invalid(f"{names.claim_url} would be set twice; choose another --key or --prefix.")
    return names
