"""Two cookies: the session of a signed-in user, and a secret for the forms of users who are not signed in.

Over HTTPS, their names have the `__Host-` prefix, so that no other host of the same domain can set them.
"""

import re
import secrets

from starlette.requests import Request
from starlette.responses import Response

from bough.config import Settings
from bough.pages.headers import is_served_over_https

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")  # the format of token_urlsafe(32)
_DAY = 86400
FORM_SECRET_AGE = 7 * _DAY


class Cookies:
    def __init__(self, settings: Settings) -> None:
        self._secure = is_served_over_https(settings)
        prefix = "__Host-" if self._secure else ""
        self.session_name = f"{prefix}bough_session"
        self.form_secret_name = f"{prefix}bough_visitor"
        self._session_age = round(settings.session_days * _DAY)

    def get_session(self, request: Request) -> str | None:
        return _valid_secret(request.cookies.get(self.session_name))

    def get_form_secret(self, request: Request) -> str | None:
        return _valid_secret(request.cookies.get(self.form_secret_name))

    def set_session(self, response: Response, token: str) -> None:
        self._set(response, self.session_name, token, self._session_age)

    def clear_session(self, response: Response) -> None:
        self._set(response, self.session_name, "", 0)

    def set_form_secret(self, response: Response, secret: str) -> None:
        self._set(response, self.form_secret_name, secret, FORM_SECRET_AGE)

    def _set(self, response: Response, name: str, value: str, max_age: int) -> None:
        response.set_cookie(name, value, max_age=max_age, path="/", secure=self._secure, httponly=True, samesite="lax")


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def _valid_secret(value: str | None) -> str | None:
    return value if value and _SECRET.fullmatch(value) else None
