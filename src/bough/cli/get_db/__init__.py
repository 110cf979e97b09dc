"""`bough get-db`: an instant database in one line, its connection strings in the environment file.

Everything that can be wrong here is looked at before the platform is asked: options, file, seed.
"""

import shlex
from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Literal

import typer

from bough.cli import output
from bough.cli.get_db import claim as claiming
from bough.cli.get_db import dotenv, prompts
from bough.cli.get_db.env_file import EnvFile, EnvFileError
from bough.cli.get_db.options import (
    DEFAULT_ENV_FILE,
    DEFAULT_HOST,
    DEFAULT_KEY,
    DEFAULT_PREFIX,
    DEFAULT_REF,
    HOST_VARIABLE,
    GetDbOptions,
    GetDbRequest,
    check_claim_options,
    resolve_options,
)
from bough.cli.get_db.seed import Seed, SeedFailed
from bough.errors import PreconditionFailed, Unavailable
from bough_client.errors import ClientError
from bough_client.instant import InstantClient, InstantDatabaseResponse


def get_db(
    word: Annotated[
        Literal["claim"] | None,
        typer.Argument(metavar="claim", help="Open the claim URL of the environment file in a browser instead."),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip prompts and use defaults.")] = False,
    env: Annotated[
        str | None, typer.Option("--env", "-e", metavar="PATH", help=f"Environment file. [default: {DEFAULT_ENV_FILE}]")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", "-k", metavar="NAME", help=f"Variable for the connection string. [default: {DEFAULT_KEY}]"
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", "-p", metavar="TEXT", help=f"Prefix of public variables. [default: {DEFAULT_PREFIX}]"),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", "-s", metavar="PATH", help="SQL file to seed the database with.")
    ] = None,
    logical_replication: Annotated[
        bool, typer.Option("--logical-replication", "-L", help="Enable logical replication.")
    ] = False,
    ref: Annotated[
        str | None, typer.Option("--ref", "-r", metavar="TEXT", help=f"Referrer identifier. [default: {DEFAULT_REF}]")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", metavar="URL", envvar=HOST_VARIABLE, help="The platform to ask.")
    ] = DEFAULT_HOST,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON, password included.")] = False,
) -> None:
    """Get a Postgres database in one call, without an account.

    Its pooled and its direct connection string and its claim URL go into the environment file, of
    which everything else stays as it is. Unclaimed, it lives for 72 hours. `claim` takes --env, --prefix
    and --json.
    """
    options = GetDbOptions(env, key, prefix, seed, logical_replication, ref, host)
    if word == "claim":
        check_claim_options(options)
        claiming.claim(DEFAULT_ENV_FILE if env is None else env, prefix, json=json)
        return
    asking = prompts.is_interactive() and not yes and not json
    wanted = resolve_options(options, is_interactive=asking)
    file = _check_env_file(wanted, asking=asking)
    script = None if wanted.seed is None else Seed.read(wanted.seed)
    made = _create_database(wanted)
    _write_env_file(wanted, file, made)
    if script is not None:
        _run_seed(wanted, script, made)
    _print_result(wanted, made, json=json)


def _check_env_file(wanted: GetDbRequest, *, asking: bool) -> EnvFile:
    """The file, which can be written and may be given our variables."""
    file = EnvFile.read(wanted.env)
    taken = _existing_names(wanted, file)
    if taken and not (asking and prompts.confirm_replace(taken, wanted.env)):
        remedy = "" if asking else " Remove them, or name others with --key and --prefix."
        raise PreconditionFailed(f"{wanted.env} has {_listed(taken)} already; nothing was created.{remedy}")
    file.check_writable()
    return file


def _existing_names(wanted: GetDbRequest, file: EnvFile) -> list[str]:
    assigned = dotenv.parse_variables(file.content)
    return [name for name in wanted.names.all_names if name in assigned]


def _create_database(wanted: GetDbRequest) -> InstantDatabaseResponse:
    try:
        return InstantClient(wanted.host).create(wanted.ref, logical_replication=wanted.logical_replication)
    except ClientError as error:
        raise Unavailable(f"{_describe_error(error, wanted.host)} {wanted.env} was not touched.") from None


def _describe_error(error: ClientError, host: str) -> str:
    if error.status is None:
        step = f"Check that the platform runs (`bough up`), and its address (--host or {HOST_VARIABLE})."
        return f"{error.message} {step}"
    said = f"{host} says: {_ended(error.message)}"
    if error.hint:
        said += f" {_ended(error.hint)}"
    if error.retry_after is not None:
        said += f" Try again in {error.retry_after} s."
    return said


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _write_env_file(wanted: GetDbRequest, file: EnvFile, made: InstantDatabaseResponse) -> None:
    """Into the file as it is now: it may have changed while the database was made."""
    pooled, direct = made.connection_strings()
    urls = {"pooled": pooled, "direct": direct, "claim_url": made.claim_url}
    block = dotenv.make_block(wanted.names, **urls, expires_at=made.expires_at)
    try:
        now = EnvFile.read(wanted.env)
        if new := [name for name in _existing_names(wanted, now) if name not in _existing_names(wanted, file)]:
            raise EnvFileError(f"Somebody else has put {_listed(new)} into {wanted.env}.")
        now.check_writable()
        now.replace(dotenv.insert_block(now.content, block))
    except EnvFileError as error:
        for line in block.lines():
            output.print_text(line)
        raise EnvFileError(
            f"{error.public_message} The database is there all the same: its lines stand above."
        ) from None


def _run_seed(wanted: GetDbRequest, seed: Seed, made: InstantDatabaseResponse) -> None:
    try:
        seed.run(made.connection_strings()[1])
    except SeedFailed as error:
        step = f"The database is there and {wanted.env} is written; run the mended file with psql."
        raise SeedFailed(f"{error.public_message}\n{step}") from None


def _print_result(wanted: GetDbRequest, made: InstantDatabaseResponse, *, json: bool) -> None:
    pooled, direct = made.connection_strings()
    if json:
        output.print_json(
            {
                "id": made.id,
                "env_file": wanted.env,
                "connection_string": pooled,
                "direct_connection_string": direct,
                "claim_url": made.claim_url,
                "expires_at": f"{made.expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "seeded": wanted.seed is not None,
            }
        )
        return
    output.print_text(f"{wanted.env} has {_listed(wanted.names.all_names)} of a new database.")
    if wanted.seed is not None:
        output.print_text(f"{wanted.seed} has run in it.")
    output.print_text(f"It expires at {dotenv.format_http_date(made.expires_at)}, unless it is claimed:")
    output.print_text(f"  {made.claim_url}")
    where = "" if wanted.env == DEFAULT_ENV_FILE else f" --env {shlex.quote(wanted.env)}"
    output.print_text(f"`{output.program_name()} get-db claim{where}` opens that address.")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
