"""The API of the platform that runs in a home, called with the operator's key."""

from dataclasses import dataclass
from typing import Any

from bough.cli import api_client, output
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
        running = require_running(settings)
        try:
            key = read_operator_key(settings)
        except OSError as error:
            raise PreconditionFailed(
                f"The operator's key in {settings.keys / 'operator'} cannot be read: {error.strerror}. "
                "Run this command as the user who started the platform."
            ) from None
        return cls(settings, running.api_address, key)

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        return api_client.get(self.address, self.key, path, **query)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        return api_client.post(self.address, self.key, path, **body)

    def list_users(self) -> list[dict[str, Any]]:
        users: list[dict[str, Any]] = self.get("/bough/users")["users"]
        return users

    def find_user_id(self, email: str) -> str:
        normalized = email.strip().lower()
        for user in self.list_users():
            if user["email"] == normalized:
                return str(user["id"])
        command = output.format_command("admin user list", self.settings.home)
        raise NotFound(f"There is no account with the address {email!r}; list the accounts with `{command}`.")


def read_operator_key(settings: Settings) -> str:
    """Return the key that control creates at the first start, before it is ready."""
    return (settings.keys / "operator").read_text().strip()


def require_running(settings: Settings) -> state.SupervisorState:
    running = state.read_running(settings)
    if running is None:
        raise PreconditionFailed(describe_stopped(settings))
    return running


def describe_stopped(settings: Settings) -> str:
    command = output.format_command("up", settings.home)
    return f"Bough is not running in {settings.home}; start it with `{command}`."
