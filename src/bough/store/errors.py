"""A store that cannot be reached or written is a passing trouble with a sentence, not a crash."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bough.errors import Unavailable

_DATABASE: tuple[type[Exception], ...] = (OperationalError, InterfaceError, PoolTimeout)


@contextmanager
def translate_driver_errors(*driver_errors: type[Exception]) -> Iterator[None]:
    """`more` are the driver's own errors when it cannot connect."""
    try:
        yield
    except _DATABASE + driver_errors as error:
        raise Unavailable(
            "The platform's own store cannot be read or written just now. Try again in a moment."
        ) from error
