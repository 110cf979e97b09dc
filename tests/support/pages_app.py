"""The pages of a platform as browsers meet them: in this process, with a cookie jar each.

Passwords take next to no work here. Every browser is at an address of its own, so none is kept waiting for another.
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
    """A page: its elements with their attributes, and the hidden fields of its forms."""

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
        """What stands in a field that people see."""
        return next(field.get("value", "") for field in self.find_all("input") if field.get("name") == name)


def normalize_response(answer: httpx2.Response, address: str) -> tuple[int, dict[str, str], str]:
    """An answer to somebody with this address, without what differs from one request to the next."""
    kept = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "content-length")}
    return answer.status_code, kept, answer.text.replace(address, "somebody")


class PageClient:
    """A client that keeps cookies, says where its forms come from, and follows nothing by itself."""

    def __init__(self, front: "PagesApp", address: str) -> None:
        self.pages_app = front
        transport = httpx2.ASGITransport(app=front.asgi_app, client=(address, 50000))
        self.client = httpx2.AsyncClient(transport=transport, base_url=front.url, timeout=60)
        self.form_token = ""

    @property
    def origin(self) -> str:
        return self.pages_app.url

    @property
    def session(self) -> str:
        """The secret in its cookie."""
        found = [each.value for each in self.client.cookies.jar if each.name.endswith("bough_session")]
        assert len(found) == 1, found
        assert found[0]
        return found[0]

    def set_session_cookie(self, session: str) -> None:
        """Somebody put this into its cookie jar."""
        self.client.cookies.set("bough_session", session, domain=self.client.base_url.host)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return self._read_form_token(await self.client.get(path, **options))

    async def post(self, path: str, headers: dict[str, str] | None = None, /, **fields: str) -> httpx2.Response:
        """The form of the page that was seen last."""
        given = {"form_token": self.form_token, **fields}
        said = {"Origin": self.origin} if headers is None else headers
        return self._read_form_token(await self.client.post(path, data=given, headers=said))

    async def sign_in(self, user: User, password: str = PASSWORD, **fields: str) -> httpx2.Response:
        await self.get("/signin")
        answer = await self.post("/signin", email=user.email, password=password, **fields)
        assert answer.status_code == 303, answer.text
        await self.get("/account")
        return answer

    def _read_form_token(self, answer: httpx2.Response) -> httpx2.Response:
        assert answer.status_code < 500, answer.text
        if found := re.search(r'name="form_token" value="([0-9a-f]{64})"', answer.text):
            self.form_token = found[1]
        return answer


@dataclass(frozen=True, slots=True)
class SignedInUser:
    user: User
    client: PageClient


class PagesApp:
    """The pages over a platform's store, under settings of their own."""

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

    async def sign_in_new_user(self) -> SignedInUser:
        """Somebody with an account, who signed in."""
        user, browser = await self.create_user(), self.open_client()
        await browser.sign_in(user)
        return SignedInUser(user, browser)

    async def create_context(self, user: User) -> Context:
        """Theirs, for calling control without a page."""
        async with self.services.store.read() as rows:
            principal = await accounts.load_principal(rows, user)
        audit = AuditRecord(principal.actor, "test", address="", request_id="test")
        return Context(services=self.services, principal=principal, audit=audit)

    async def create_project(self, user: User, **fields: Any) -> dict[str, Any]:
        """With the API, as the answer that made it; nobody does the work."""
        _key, token = await create_personal_key(await self.create_context(user), "to create a project")
        async with self.open_client().client as client:
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.post(f"{API}/projects", json={"project": fields}, headers=headers)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def list_mails(self, address: str | None) -> list[str]:
        async with self.services.store.read() as rows:
            waiting = await rows.mail_messages.list_due(clock.now(), 10_000)
        return [mail.open_text(self.services.vault, each) for each in waiting if each.recipient == address]

    async def get_mailed_link(self, address: str) -> str:
        """The path of the link in the last letter."""
        text = (await self.list_mails(address))[-1]
        found = re.search(rf"{re.escape(mail.public_url(self.settings))}(/\S+)", text)
        assert found, text
        return found[1]
