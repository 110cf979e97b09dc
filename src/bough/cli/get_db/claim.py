"""`bough get-db claim`: the claim URL of an environment file, printed and opened in a browser."""

import webbrowser

from bough.cli import output
from bough.cli.get_db.dotenv import CLAIM_URL_SUFFIX, parse_variables
from bough.cli.get_db.env_file import EnvFile
from bough.cli.get_db.options import DEFAULT_PREFIX
from bough.errors import NotFound, PreconditionFailed
from bough_client.transport import is_http_url


def claim(env: str, prefix: str | None, *, json: bool) -> None:
    url = _url(env, prefix)
    if json:
        output.print_json({"claim_url": url})
    else:
        output.print_text(url)
    if not webbrowser.open(url):
        output.print_note("No browser could be started here; open this address in one.")


def _url(env: str, prefix: str | None) -> str:
    """With a prefix of that variable; without one of the usual one, else of the only one there is."""
    variables = parse_variables(EnvFile.read(env).content)
    urls = {name: url for name, url in variables.items() if name.endswith(CLAIM_URL_SUFFIX)}
    usual = (DEFAULT_PREFIX if prefix is None else prefix) + CLAIM_URL_SUFFIX
    found = {urls[usual]} if usual in urls else set(urls.values()) if prefix is None else set()
    if not found:
        raise NotFound(f"{env} has no {usual}; `bough get-db` makes a database and writes it, or name another --env.")
    if len(found) > 1:
        raise PreconditionFailed(f"{env} has {', '.join(urls)}; say which with --prefix.")
    url = found.pop()
    if not is_http_url(url):
        raise PreconditionFailed(f"The claim URL in {env} is no web address, so it was not opened.")
    return url
