import pytest

from support import js_workspace
from support.js_workspace import Workspace


@pytest.fixture(scope="session")
def js() -> Workspace:
    """Types are checked by its build."""
    return js_workspace.build_workspace()
