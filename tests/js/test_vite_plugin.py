"""`postgres(options)` in a real Vite that has no platform to ask: when it keeps still, and how it fails."""

from pathlib import Path

from js import workspace
from js.site import said_last, site
from js.workspace import Workspace

REFERRER = {"referrer": "vite-test"}


def test_its_options_do_what_their_own_tests_say(js: Workspace) -> None:
    done = js.run(js.node, "--test", "test/plugin.test.js", cwd=workspace.VITE_PLUGIN)
    assert done.returncode == 0, done.stdout[-5000:]


def test_a_production_build_and_its_preview_do_nothing(js: Workspace, tmp_path: Path) -> None:
    root = site(tmp_path)
    before = set(root.iterdir())
    done = js.vite(root, "build", REFERRER)
    assert done.returncode == 0, done.stderr
    assert "[postgres]" not in done.stdout + done.stderr
    assert set(root.iterdir()) == {*before, root / "dist"}


def test_without_a_platform_the_dev_server_starts_and_says_why_there_is_no_database(
    js: Workspace, tmp_path: Path
) -> None:
    root = site(tmp_path)
    before = set(root.iterdir())
    done = js.vite(root, "dev", REFERRER, INSTANT_BASE_URL="http://127.0.0.1:10")
    assert done.returncode == 0, done.stderr
    assert "import.meta.env" in said_last(done)["second"]["served"]
    tries = done.stderr.count("[postgres] http://127.0.0.1:10 cannot be reached")
    assert (tries, set(root.iterdir())) == (2, before)  # a restart tries again
