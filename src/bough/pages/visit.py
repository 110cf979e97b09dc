"""One visit of a browser to a page: who comes, what they sent, and the ways to answer."""

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bough.control.accounts import SignedIn, Visitor
from bough.control.desk import Desk
from bough.control.parts import Parts
from bough.control.signing_in import SigningIn
from bough.errors import PlatformError
from bough.http_statuses import STATUS
from bough.pages import assets, cookies, forgery, forms, refusals
from bough.pages.cookies import Cookies
from bough.pages.rendering import render


class Visit:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.parts: Parts = request.app.state.parts
        self.visitor = _visitor(request)
        self.form = forms.EMPTY
        self.signed: SignedIn | None = None
        self._cookies = Cookies(self.parts.settings)
        self._known = self._cookies.visitor(request)
        self._secret = self._known or cookies.new_secret()

    async def recognise(self) -> None:
        """Whoever has a session is known by it from here on, to their forms as well."""
        token = self._cookies.session(self.request)
        if token is not None:
            self.signed = await SigningIn(self.parts, self.visitor).signed_in(token)
        if self.signed is not None and token is not None:
            self._secret = token

    def take(self) -> None:
        """Pages count as requests of the API do."""
        if self.signed is not None:
            self.parts.limiter.take(self.signed.user.id, f"{self.request.method} {self.request.url.path}")
        else:
            self.parts.limiter.take_address(self.visitor.address)

    async def read_form(self) -> None:
        """A form of ours, or nothing goes on."""
        forgery.check_origin(self.request, self.parts.settings)
        self.form = await forms.read(self.request)
        forgery.check_token(self.form.secret(forgery.FIELD), self._form_token)

    def asked(self, name: str) -> str:
        """What the address says after the question mark."""
        return self.request.query_params.get(name, "")

    def desk(self, signed: SignedIn, action: str) -> Desk:
        """The action is called in the audit as its call of the API is."""
        return self.parts.desk(signed.principal, self.visitor.record(signed.principal.actor, action))

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        shown = {"problem": None, **values}
        text = render(
            template,
            user=self.signed.user if self.signed else None,
            form_token=self._form_token,
            settings=self.parts.settings,
            static=assets.ADDRESSES,
            **shown,
        )
        response = HTMLResponse(text, status)
        if self.signed is None and self._known is None:
            self._cookies.set_visitor(response, self._secret)
        return response

    def again(self, template: str, error: PlatformError, **values: Any) -> Response:
        """The page of the form that was sent, with what is wrong beside it."""
        response = self.page(template, STATUS[error.kind], problem=error.public, **values)
        response.headers.update(refusals.headers(error))
        return response

    def to(self, path: str) -> Response:
        return RedirectResponse(path, 303)

    def signed_in(self, path: str, token: str) -> Response:
        """On, with a session that begins."""
        response = self.to(path)
        self._cookies.set_session(response, token)
        return response

    def signed_out(self, path: str) -> Response:
        response = self.to(path)
        self._cookies.end_session(response)
        return response

    @property
    def _form_token(self) -> str:
        return forgery.token(self.parts.keys, "session" if self.signed else "visitor", self._secret)


def _visitor(request: Request) -> Visitor:
    agent = request.headers.get("user-agent", "")
    return Visitor(
        address=request.client.host if request.client else "",
        agent="".join(letter for letter in agent if letter.isprintable()),
        request_id=request.scope["request_id"],
    )
