"""The platform that runs in a home, as the operator asks it."""

from dataclasses import dataclass
from typing import Any

from bough.cli import output
from bough.cli.admin import asking, state, welcome
from bough.cli.admin.addresses import Addresses
from bough.config import Settings
from bough.errors import NotFound, PreconditionFailed


@dataclass(frozen=True, slots=True)
class Running:
    settings: Settings
    addresses: Addresses
    key: str

    @classmethod
    def of(cls, settings: Settings) -> "Running":
        seen = state.running(settings)
        if seen is None:
            line = output.our_command("up", settings.home)
            raise PreconditionFailed(f"Bough does not run in {settings.home}; `{line}` starts it.")
        return cls(settings, seen.addresses, _key(settings))

    def ask(self, path: str, **query: str | int) -> dict[str, Any]:
        return asking.ask(self.addresses, self.key, path, **query)

    def send(self, path: str, **body: Any) -> dict[str, Any]:
        return asking.send(self.addresses, self.key, path, **body)

    def users(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("/bough/users")["users"]
        return found

    def user_id(self, email: str) -> str:
        wanted = email.strip().lower()
        for user in self.users():
            if user["email"] == wanted:
                return str(user["id"])
        line = output.our_command("admin user list", self.settings.home)
        raise NotFound(f"Nobody has an account with the address {email!r}; `{line}` shows who has.")


def _key(settings: Settings) -> str:
    try:
        return welcome.operator_key(settings)
    except OSError as error:
        raise PreconditionFailed(
            f"The operator's key in {settings.keys / 'operator'} cannot be read: {error.strerror}. "
            "Run this as the user who started the platform."
        ) from None
