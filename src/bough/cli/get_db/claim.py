"""`bough get-db claim`: prints the claim URL of an environment file and opens it in a browser."""

import webbrowser

from bough.cli import output
from bough.cli.get_db.dotenv import CLAIM_URL_SUFFIX, parse_variables
from bough.cli.get_db.env_file import EnvFile
from bough.cli.get_db.options import DEFAULT_PREFIX
from bough.errors import NotFound, PreconditionFailed
from bough_client.transport import is_http_url


def claim(env: str, prefix: str | None, *, json: bool) -> None:
    url = _find_url(env, prefix)
    if json:
        output.print_json({"claim_url": url})
    else:
        output.print_text(url)
    if not webbrowser.open(url):
        output.print_note("Could not start a browser; open this URL yourself.")


def _find_url(env: str, prefix: str | None) -> str:
    """Read the variable with this prefix. Without a prefix, use the default variable or else the only one."""
    variables = parse_variables(EnvFile.read(env).content)
    urls = {name: url for name, url in variables.items() if name.endswith(CLAIM_URL_SUFFIX)}
    name = (DEFAULT_PREFIX if prefix is None else prefix) + CLAIM_URL_SUFFIX
    candidates = {urls[name]} if name in urls else set(urls.values()) if prefix is None else set()
    if not candidates:
        raise NotFound(
            f"{env} has no {name}; create a database with `bough get-db`, or choose another file with --env."
        )
    if len(candidates) > 1:
        raise PreconditionFailed(f"{env} has {', '.join(urls)}; choose one with --prefix.")
    url = candidates.pop()
    if not is_http_url(url):
        raise PreconditionFailed(f"The claim URL in {env} is not a web address, so it was not opened.")
    return url
