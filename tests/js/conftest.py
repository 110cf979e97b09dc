import pytest

from support import js_workspace
from support.js_workspace import Workspace


@pytest.fixture(scope="session")
def js() -> Workspace:
    """The build also checks the types."""
    return js_workspace.build_workspace()
