"""The platform that runs in a home, as the operator asks it."""

from dataclasses import dataclass
from typing import Any

from bough.cli import api_client, output, startup_message
from bough.config import Settings
from bough.errors import NotFound, PreconditionFailed
from bough.supervisor import state
from bough.supervisor.addresses import ApiAddress


@dataclass(frozen=True, slots=True)
class OperatorClient:
    settings: Settings
    address: ApiAddress
    key: str

    @classmethod
    def connect(cls, settings: Settings) -> "OperatorClient":
        seen = state.read_running(settings)
        if seen is None:
            line = output.format_command("up", settings.home)
            raise PreconditionFailed(f"Bough does not run in {settings.home}; `{line}` starts it.")
        return cls(settings, seen.api_address, _key(settings))

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        return api_client.get(self.address, self.key, path, **query)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        return api_client.post(self.address, self.key, path, **body)

    def list_users(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/bough/users")["users"]
        return found

    def find_user_id(self, email: str) -> str:
        wanted = email.strip().lower()
        for user in self.list_users():
            if user["email"] == wanted:
                return str(user["id"])
        line = output.format_command("admin user list", self.settings.home)
        raise NotFound(f"Nobody has an account with the address {email!r}; `{line}` shows who has.")


def _key(settings: Settings) -> str:
    try:
        return startup_message.read_operator_key(settings)
    except OSError as error:
        raise PreconditionFailed(
            f"The operator's key in {settings.keys / 'operator'} cannot be read: {error.strerror}. "
            "Run this as the user who started the platform."
        ) from None
