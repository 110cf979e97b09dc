"""The pages of a platform in this process, and clients that keep cookies as browsers do.

Passwords use cheap hashes. Every client has its own address, so that clients do not share rate limits.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

import httpx2
from argon2 import PasswordHasher

from bough import clock
from bough.access.passwords import Passwords
from bough.api.app import create_app
from bough.config import Settings
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.people import accounts
from bough.control.people.keys import create_personal_key
from bough.control.platform import mail
from bough.control.platform.rate_limits import AttemptLimits, RateLimiter
from bough.control.services import Services
from bough.domain.user import User
from bough.ids import OperationId
from bough.pages import routes
from support.platform import API, Platform

PASSWORD = "correct horse battery"
_ADDRESSES = ipaddress.ip_network("10.0.0.0/8").hosts()
FAST_PASSWORDS = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


def make_email() -> str:
    return f"{OperationId.new()}@example.com"


class ParsedPage(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def find_all(self, tag: str) -> Iterator[dict[str, str]]:
        return (attributes for name, attributes in self.elements if name == tag)

    def hidden_value(self, name: str) -> str:
        return next(field["value"] for field in self.find_all("input") if field.get("name") == name)

    def field_value(self, name: str) -> str:
        """Return the value of a visible field."""
        return next(field.get("value", "") for field in self.find_all("input") if field.get("name") == name)


def normalize_response(response: httpx2.Response, address: str) -> tuple[int, dict[str, str], str]:
    """Return the parts of a response that do not depend on the request id and on the e-mail address."""
    headers = {
        name: value for name, value in response.headers.items() if name not in ("x-request-id", "content-length")
    }
    return response.status_code, headers, response.text.replace(address, "somebody")


class PageClient:
    """A client that keeps cookies, sends the origin of its forms and does not follow redirects."""

    def __init__(self, pages_app: "PagesApp", address: str) -> None:
        self.pages_app = pages_app
        transport = httpx2.ASGITransport(app=pages_app.asgi_app, client=(address, 50000))
        self.client = httpx2.AsyncClient(transport=transport, base_url=pages_app.url, timeout=60)
        self.form_token = ""

    @property
    def origin(self) -> str:
        return self.pages_app.url

    @property
    def session(self) -> str:
        """The token in the session cookie."""
        tokens = [each.value for each in self.client.cookies.jar if each.name.endswith("bough_session")]
        assert len(tokens) == 1, tokens
        assert tokens[0]
        return tokens[0]

    def set_session_cookie(self, session: str) -> None:
        """Set the session cookie, as an attacker could."""
        self.client.cookies.set("bough_session", session, domain=self.client.base_url.host)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return self._read_form_token(await self.client.get(path, **options))

    async def post(self, path: str, headers: dict[str, str] | None = None, /, **fields: str) -> httpx2.Response:
        """Send a form with the token of the last page."""
        data = {"form_token": self.form_token, **fields}
        sent_headers = {"Origin": self.origin} if headers is None else headers
        return self._read_form_token(await self.client.post(path, data=data, headers=sent_headers))

    async def sign_in(self, user: User, password: str = PASSWORD, **fields: str) -> httpx2.Response:
        await self.get("/signin")
        response = await self.post("/signin", email=user.email, password=password, **fields)
        assert response.status_code == 303, response.text
        await self.get("/account")
        return response

    def _read_form_token(self, response: httpx2.Response) -> httpx2.Response:
        assert response.status_code < 500, response.text
        if match := re.search(r'name="form_token" value="([0-9a-f]{64})"', response.text):
            self.form_token = match[1]
        return response


@dataclass(frozen=True, slots=True)
class SignedInClient:
    user: User
    client: PageClient


class PagesApp:
    """The pages of a platform, with their own settings."""

    def __init__(self, platform: Platform, passwords: Passwords | None = None, **changes: Any) -> None:
        self.platform = platform
        self.settings = Settings.model_validate({**platform.settings.model_dump(), "sign_up": "open", **changes})
        self.services: Services = replace(
            platform.services,
            settings=self.settings,
            rate_limiter=RateLimiter(self.settings),
            attempt_limits=AttemptLimits(),
            passwords=passwords or FAST_PASSWORDS,
        )
        self.url = self.settings.public_url or "http://bough.test"
        self.asgi_app = create_app(self.services, routes.routes())

    def open_client(self, address: str | None = None) -> PageClient:
        return PageClient(self, address or str(next(_ADDRESSES)))

    async def create_user(self, password: str = PASSWORD) -> User:
        async with self.services.store.transaction() as rows:
            return await accounts.add_account(rows, make_email(), "Ada", await self.services.passwords.digest(password))

    async def sign_in_new_user(self) -> SignedInClient:
        """Create a user and signs in."""
        user, client = await self.create_user(), self.open_client()
        await client.sign_in(user)
        return SignedInClient(user, client)

    async def create_context(self, user: User) -> Context:
        """Return a context of the user, to call control without a page."""
        async with self.services.store.read() as rows:
            principal = await accounts.load_principal(rows, user)
        audit = AuditRecord(principal.actor, "test", address="", request_id="test")
        return Context(services=self.services, principal=principal, audit=audit)

    async def create_project(self, user: User, **fields: Any) -> dict[str, Any]:
        """Create a project with the API and return the response. Its operations are not run."""
        _key, token = await create_personal_key(await self.create_context(user), "to create a project")
        async with self.open_client().client as client:
            headers = {"Authorization": f"Bearer {token}"}
            response = await client.post(f"{API}/projects", json={"project": fields}, headers=headers)
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    async def list_mails(self, address: str | None) -> list[str]:
        async with self.services.store.read() as rows:
            unsent = await rows.mail_messages.list_due(clock.now(), 10_000)
        return [mail.open_text(self.services.vault, each) for each in unsent if each.recipient == address]

    async def get_mailed_link(self, address: str) -> str:
        """Return the path of the link in the last mail."""
        text = (await self.list_mails(address))[-1]
        match = re.search(rf"{re.escape(mail.public_url(self.settings))}(/\S+)", text)
        assert match, text
        return match[1]
