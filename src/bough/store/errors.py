"""Reports an unreachable or read-only store as a temporary error instead of a crash."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bough.errors import Unavailable

_DATABASE: tuple[type[Exception], ...] = (OperationalError, InterfaceError, PoolTimeout)


@contextmanager
def translate_driver_errors(*driver_errors: type[Exception]) -> Iterator[None]:
    """`driver_errors` are the additional errors that the driver raises when it cannot connect."""
    try:
        yield
    except _DATABASE + driver_errors as error:
        raise Unavailable(
            "The platform's own store cannot be read or written right now. Try again in a moment."
        ) from error
