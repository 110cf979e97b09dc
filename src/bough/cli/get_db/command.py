"""`bough get-db`: creates an instant database and writes its connection strings to an environment file.

It checks the options, the file and the seed before it calls the platform.
"""

import shlex
from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Literal

import typer

from bough.cli import output
from bough.cli.get_db import claim, dotenv, prompts
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
        str, typer.Option("--host", metavar="URL", envvar=HOST_VARIABLE, help="URL of the platform.")
    ] = DEFAULT_HOST,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON, including the password.")] = False,
) -> None:
    """Get a Postgres database in one call, without an account.

    Adds the pooled and the direct connection string and the claim URL to the environment file, and
    leaves the rest of the file unchanged. An unclaimed database is deleted when it expires, by default
    after 72 hours. `claim` accepts only --env, --prefix and --json.
    """
    options = GetDbOptions(env, key, prefix, seed, logical_replication, ref, host)
    if word == "claim":
        check_claim_options(options)
        claim.claim(DEFAULT_ENV_FILE if env is None else env, prefix, json=json)
        return
    is_interactive = prompts.is_interactive() and not yes and not json
    request = resolve_options(options, is_interactive=is_interactive)
    file = _check_env_file(request, is_interactive=is_interactive)
    script = None if request.seed is None else Seed.read(request.seed)
    database = _create_database(request)
    _write_env_file(request, file, database)
    if script is not None:
        _run_seed(request, script, database)
    _print_result(request, database, json=json)


def _check_env_file(request: GetDbRequest, *, is_interactive: bool) -> EnvFile:
    """Return the file after checking that it is writable and that our variables may be set in it."""
    file = EnvFile.read(request.env)
    existing = _existing_names(request, file)
    if existing and not (is_interactive and prompts.confirm_replace(existing, request.env)):
        advice = "" if is_interactive else " Remove them, or choose other names with --key and --prefix."
        raise PreconditionFailed(f"{request.env} already has {_join(existing)}; nothing was created.{advice}")
    file.check_writable()
    return file


def _existing_names(request: GetDbRequest, file: EnvFile) -> list[str]:
    variables = dotenv.parse_variables(file.content)
    return [name for name in request.names.all_names if name in variables]


def _create_database(request: GetDbRequest) -> InstantDatabaseResponse:
    try:
        return InstantClient(request.host).create(request.ref, logical_replication=request.logical_replication)
    except ClientError as error:
        raise Unavailable(f"{_describe_error(error, request.host)} {request.env} was not changed.") from None


def _describe_error(error: ClientError, host: str) -> str:
    if error.status is None:
        advice = f"Check that the platform is running (`bough up`) and its URL is correct (--host or {HOST_VARIABLE})."
        return f"{error.message} {advice}"
    message = f"{host} responded: {_end_sentence(error.message)}"
    if error.hint:
        message += f" {_end_sentence(error.hint)}"
    if error.retry_after is not None:
        message += f" Try again in {error.retry_after} s."
    return message


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _write_env_file(request: GetDbRequest, checked: EnvFile, database: InstantDatabaseResponse) -> None:
    """Read the file again, because it may have changed while the database was created."""
    pooled, direct = database.connection_strings()
    urls = {"pooled": pooled, "direct": direct, "claim_url": database.claim_url}
    block = dotenv.make_block(request.names, **urls, expires_at=database.expires_at)
    try:
        file = EnvFile.read(request.env)
        if new := [name for name in _existing_names(request, file) if name not in _existing_names(request, checked)]:
            raise EnvFileError(f"Another program has added {_join(new)} to {request.env}.")
        file.check_writable()
        file.replace(dotenv.insert_block(file.content, block))
    except EnvFileError as error:
        for line in block.lines():
            output.print_text(line)
        raise EnvFileError(
            f"{error.public_message} The database was created nevertheless; its variables are printed above."
        ) from None


def _run_seed(request: GetDbRequest, seed: Seed, database: InstantDatabaseResponse) -> None:
    try:
        seed.run(database.connection_strings()[1])
    except SeedFailed as error:
        advice = f"The database exists and {request.env} is written; correct the file and run it with psql."
        raise SeedFailed(f"{error.public_message}\n{advice}") from None


def _print_result(request: GetDbRequest, database: InstantDatabaseResponse, *, json: bool) -> None:
    pooled, direct = database.connection_strings()
    if json:
        output.print_json(
            {
                "id": database.id,
                "env_file": request.env,
                "connection_string": pooled,
                "direct_connection_string": direct,
                "claim_url": database.claim_url,
                "expires_at": f"{database.expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "seeded": request.seed is not None,
            }
        )
        return
    output.print_text(f"Created a database and added {_join(request.names.all_names)} to {request.env}.")
    if request.seed is not None:
        output.print_text(f"Ran {request.seed} in it.")
    output.print_text(f"It expires at {dotenv.format_http_date(database.expires_at)} unless you claim it:")
    output.print_text(f"  {database.claim_url}")
    env_option = "" if request.env == DEFAULT_ENV_FILE else f" --env {shlex.quote(request.env)}"
    output.print_text(f"Open this URL with `{output.program_name()} get-db claim{env_option}`.")


def _join(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
