"""Reads the control file of a data directory, in which its last server described its state."""

import struct
from pathlib import Path

from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.tenant_files import read_file
from bough.postgres.control_file import BYTES, PATH, ControlFile


def read_control_file(data: Path) -> ControlFile:
    """Raise OSError if there is no control file or if it is not what Postgres writes."""
    content = read_file(PATH, data, BYTES)
    try:
        return ControlFile.parse(content)
    except (struct.error, ValueError) as error:
        raise TenantFileError(
            f"The branch's files cannot be used: {PATH} is not a control file of Postgres."
        ) from error
