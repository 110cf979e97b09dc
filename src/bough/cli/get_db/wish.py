"""What the user wants: the options, completed by prompts at a terminal and by defaults elsewhere."""

from dataclasses import dataclass

import typer

from bough.cli.get_db import prompts
from bough.cli.get_db.dotenv import NAME, Names
from bough.errors import Invalid
from bough_client.transport import is_address

ENV, KEY, PREFIX, REF = "./.env", "DATABASE_URL", "PUBLIC_", "get-db"
HOST, HOST_VARIABLE = "http://localhost:8432", "INSTANT_BASE_URL"


@dataclass(frozen=True, slots=True)
class Options:
    """As they were typed; None was not."""

    env: str | None
    key: str | None
    prefix: str | None
    seed: str | None
    logical_replication: bool
    ref: str | None
    host: str


@dataclass(frozen=True, slots=True)
class Wish:
    env: str
    names: Names
    seed: str | None
    logical_replication: bool
    ref: str
    host: str


def wish(options: Options, *, asking: bool) -> Wish:
    """What was typed is checked before anything is asked."""
    for name in ("env", "key", "seed", "ref"):
        if getattr(options, name) == "":
            raise typer.BadParameter("It must not be empty.", param_hint=f"'--{name}'")
    host = _host(options.host)
    key = None if options.key is None else _key(options.key)
    prefix = None if options.prefix is None else _prefix(options.prefix)
    env, seed = options.env, options.seed
    if asking:
        env = prompts.ask("Environment file", ENV) if env is None else env
        key = prompts.ask("Variable for the connection string", KEY, _key) if key is None else key
        prefix = prompts.ask("Prefix of public variables", PREFIX, _prefix) if prefix is None else prefix
        seed = prompts.ask("SQL file to seed it with (empty for none)", "") if seed is None else seed
    return Wish(
        env=ENV if env is None else env,
        names=_names(KEY if key is None else key, PREFIX if prefix is None else prefix),
        seed=seed or None,
        logical_replication=options.logical_replication,
        ref=REF if options.ref is None else options.ref,
        host=host,
    )


def refuse_for_claim(options: Options) -> None:
    """Options that do nothing would be a promise."""
    for name in ("key", "seed", "logical_replication", "ref"):
        if getattr(options, name):
            raise typer.BadParameter("It means nothing to `claim`.", param_hint=f"'--{name.replace('_', '-')}'")


def _host(text: str) -> str:
    if not is_address(text):
        raise Invalid(f"The address of the platform makes no sense; give --host or {HOST_VARIABLE} one like {HOST}.")
    return text.rstrip("/")


def _key(text: str) -> str:
    if not NAME.fullmatch(text):
        raise Invalid(f"{text!r} cannot name a variable (--key): take letters, digits and _, and no digit first.")
    return text


def _prefix(text: str) -> str:
    if text and not NAME.fullmatch(text):
        raise Invalid(f"{text!r} cannot begin a variable (--prefix): take letters, digits and _, and no digit first.")
    return text


def _names(key: str, prefix: str) -> Names:
    names = Names(key, prefix)
    if names.claim_url in {names.key, names.direct}:
        raise Invalid(f"{names.claim_url} would be written twice; choose another --key or --prefix.")
    return names
