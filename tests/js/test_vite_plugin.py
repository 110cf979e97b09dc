"""`postgres(options)` in a real Vite without a platform: when it does nothing, and how it fails."""

from pathlib import Path

from support import js_workspace
from support.js_workspace import Workspace
from support.vite_site import create_site, parse_last_line

REFERRER = {"referrer": "vite-test"}


def test_its_options_do_what_their_own_tests_say(js: Workspace) -> None:
    done = js.run(js.node, "--test", "test/plugin.test.js", cwd=js_workspace.VITE_PLUGIN)
    assert done.returncode == 0, done.stdout[-5000:]


def test_a_production_build_and_its_preview_do_nothing(js: Workspace, tmp_path: Path) -> None:
    root = create_site(tmp_path)
    before = set(root.iterdir())
    done = js.run_vite(root, "build", REFERRER)
    assert done.returncode == 0, done.stderr
    assert "[postgres]" not in done.stdout + done.stderr
    assert set(root.iterdir()) == {*before, root / "dist"}


def test_without_a_platform_the_dev_server_starts_and_says_why_there_is_no_database(
    js: Workspace, tmp_path: Path
) -> None:
    root = create_site(tmp_path)
    before = set(root.iterdir())
    done = js.run_vite(root, "dev", REFERRER, INSTANT_BASE_URL="http://127.0.0.1:10")
    assert done.returncode == 0, done.stderr
    assert "import.meta.env" in parse_last_line(done)["second"]["served"]
    attempts = done.stderr.count("[postgres] http://127.0.0.1:10 cannot be reached")
    assert (attempts, set(root.iterdir())) == (2, before)  # a restart tries again
