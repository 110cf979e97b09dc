"""Accounts, for the operator: list, create, reset."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field

from bough.api.dependencies import ContextDep, IdempotentRoute, OperatorDep, ServicesDep
from bough.api.schemas import Body, View, to_response
from bough.control.people.accounts import create_account, reset_account_password
from bough.domain.user import User
from bough.ids import UserId

router = APIRouter(tags=["Users"], route_class=IdempotentRoute)


class UserCreate(Body):
    email: Annotated[str, Field(max_length=256)]
    name: Annotated[str, Field(max_length=256)] = ""


class UserView(View):
    id: str
    email: str
    name: str
    plan: str
    created_at: datetime
    can_sign_in: bool

    @classmethod
    def of(cls, user: User) -> "UserView":
        return cls(
            id=user.id,
            email=user.email,
            name=user.name,
            plan=user.plan,
            created_at=user.created_at,
            can_sign_in=user.password_digest is not None,
        )


class UsersResponse(View):
    users: list[UserView]


class UserCreated(View):
    user: UserView
    link: str


class UserReset(View):
    link: str


@router.get("/bough/users", response_model=UsersResponse)
async def list_users(_operator: OperatorDep, services: ServicesDep) -> Response:
    """List all accounts, oldest first."""
    async with services.store.read() as rows:
        users = await rows.users.list_all()
    return to_response(UsersResponse(users=[UserView.of(user) for user in users]))


@router.post("/bough/users", response_model=UserCreated, status_code=201)
async def create_user(_operator: OperatorDep, body: UserCreate, context: ContextDep) -> Response:
    """Create an account with a personal organization. The response contains a one-time link to set the password."""
    user, link = await create_account(context, body.email, body.name)
    return to_response(UserCreated(user=UserView.of(user), link=link), 201)


@router.post("/bough/users/{user_id}/reset", response_model=UserReset)
async def reset_user(_operator: OperatorDep, user_id: UUID, context: ContextDep) -> Response:
    """Remove the password, sessions and links of an account. The response contains a one-time link to set a new
    password.
    """
    _user, link = await reset_account_password(context, UserId(user_id))
    return to_response(UserReset(link=link))
