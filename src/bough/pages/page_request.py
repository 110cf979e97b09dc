"""A request for a page: the signed-in user, the form, and the possible responses."""

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bough.control.context import Context
from bough.control.people.accounts import SignedInUser, WebClient
from bough.control.people.sign_in import find_signed_in_user
from bough.errors import PlatformError
from bough.http_requests import client_address, services_from
from bough.http_statuses import STATUS_BY_KIND
from bough.pages import assets, cookies, csrf, errors, forms
from bough.pages.cookies import Cookies
from bough.pages.renderer import render


class PageRequest:
    def __init__(self, request: Request) -> None:
        self.http_request = request
        self.services = services_from(request)
        self.client = _client(request)
        self.form = forms.EMPTY
        self.signed_in_user: SignedInUser | None = None
        self._cookies = Cookies(self.services.settings)
        self._cookie_secret = self._cookies.get_form_secret(request)
        self._secret = self._cookie_secret or cookies.new_secret()

    async def load_session(self) -> None:
        """Load the user of the session. The session then also protects the forms."""
        token = self._cookies.get_session(self.http_request)
        if token is not None:
            self.signed_in_user = await find_signed_in_user(self.services, token)
        if self.signed_in_user is not None and token is not None:
            self._secret = token

    def check_rate_limit(self) -> None:
        """Apply the rate limits of the API."""
        if self.signed_in_user is not None:
            self.services.rate_limiter.take(
                self.signed_in_user.user.id, f"{self.http_request.method} {self.http_request.url.path}"
            )
        else:
            self.services.rate_limiter.take_address(self.client.address)

    async def read_form(self) -> None:
        """Read the form. Raise an error unless it was sent from a page of this installation."""
        csrf.check_origin(self.http_request, self.services.settings)
        self.form = await forms.read(self.http_request)
        csrf.check_token(self.form.secret(csrf.FIELD), self._form_token)

    def query_param(self, name: str) -> str:
        return self.http_request.query_params.get(name, "")

    def context(self, signed_in_user: SignedInUser, action: str) -> Context:
        """`action` is the name of the corresponding API operation, for the audit log."""
        principal = signed_in_user.principal
        return Context(
            services=self.services, principal=principal, audit=self.client.audit_record(principal.actor, action)
        )

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        template_values = {"problem": None, **values}
        text = render(
            template,
            user=self.signed_in_user.user if self.signed_in_user else None,
            form_token=self._form_token,
            settings=self.services.settings,
            static=assets.URLS,
            **template_values,
        )
        response = HTMLResponse(text, status)
        if self.signed_in_user is None and self._cookie_secret is None:
            self._cookies.set_form_secret(response, self._secret)
        return response

    def render_error(self, template: str, error: PlatformError, **values: Any) -> Response:
        """Render the page of the submitted form with an error message."""
        response = self.render(template, STATUS_BY_KIND[error.kind], problem=error.public_message, **values)
        response.headers.update(errors.retry_headers(error))
        return response

    def redirect(self, path: str) -> Response:
        return RedirectResponse(path, 303)

    def redirect_with_session(self, path: str, token: str) -> Response:
        """Start a session."""
        response = self.redirect(path)
        self._cookies.set_session(response, token)
        return response

    def redirect_without_session(self, path: str) -> Response:
        response = self.redirect(path)
        self._cookies.clear_session(response)
        return response

    @property
    def _form_token(self) -> str:
        return csrf.create_token(self.services.keys, "session" if self.signed_in_user else "visitor", self._secret)


def _client(request: Request) -> WebClient:
    agent = request.headers.get("user-agent", "")
    return WebClient(
        address=client_address(request),
        user_agent="".join(character for character in agent if character.isprintable()),
        request_id=request.scope["request_id"],
    )
