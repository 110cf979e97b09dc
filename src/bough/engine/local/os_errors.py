"""Translates errors of the operating system into engine errors with a public message."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.port import EngineError


@contextmanager
def translate_os_errors() -> Iterator[None]:
    """Raise an EngineError in place of an OSError.

    A full disk and files changed by a tenant are not transient.
    """
    try:
        yield
    except RuntimeError as error:
        if "new thread" not in str(error):  # Python has no exception class for it
            raise
        raise EngineError("The machine cannot start more threads.") from error
    except TenantFileError as error:
        raise EngineError(error.message, transient=False) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineError("The disk is full: free some space and try again.", transient=False) from error
        raise EngineError(
            f"The operating system reported an error: {error.strerror or type(error).__name__}."
        ) from error
