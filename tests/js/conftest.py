import pytest

from js import workspace
from js.workspace import Workspace


@pytest.fixture(scope="session")
def js() -> Workspace:
    """Types are checked by its build."""
    return workspace.ready()
