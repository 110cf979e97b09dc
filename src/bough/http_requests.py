"""What the HTTP packages read from every request: the platform's services and the client's address."""

from starlette.requests import Request

from bough.control.services import Services


def services_from(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def client_address(request: Request) -> str:
    """Return the address behind trusted proxies; an empty string if it is unknown."""
    return request.client.host if request.client else ""
