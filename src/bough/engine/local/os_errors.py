"""What the machine refuses, in words that may be shown."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from bough.engine.local.tenant_files import TenantFileError
from bough.engine.port import EngineError


@contextmanager
def translate_os_errors() -> Iterator[None]:
    """An OSError becomes an EngineError; a full disk, or what a tenant did to its files, is not worth trying again."""
    try:
        yield
    except RuntimeError as error:
        if "new thread" not in str(error):  # the interpreter has no error of its own for it
            raise
        raise EngineError("The machine starts no more threads.") from error
    except TenantFileError as error:
        raise EngineError(error.message, transient=False) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineError("The disk is full: free some space and try again.", transient=False) from error
        raise EngineError(f"The machine refused: {error.strerror or type(error).__name__}.") from error
