"""`get-db` without a platform: its unit tests, its command line, and the content of its package."""

import json
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

import bough
from support import js_workspace
from support.js_workspace import Workspace
from support.terminal import Terminal


def test_its_parts_do_what_their_own_tests_say(js: Workspace, is_long_run: bool) -> None:
    counts = {"BOUGH_LONG": "1"} if is_long_run else {}
    files = sorted((js_workspace.GET_DB / "test").glob("*.test.js"))
    done = js.run(js.node, "--test", *files, cwd=js_workspace.GET_DB, **counts)
    assert done.returncode == 0, done.stdout[-5000:]


def test_help_h_shows_every_option_and_asks_nothing(js: Workspace, tmp_path: Path) -> None:
    done = js.run_get_db("-h", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for option in "--yes --env --key --prefix --seed --logical-replication --ref --help --host --version".split():
        assert f"{option} " in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_version_is_that_of_the_package(js: Workspace, tmp_path: Path) -> None:
    manifest = json.loads((js_workspace.GET_DB / "package.json").read_text())
    assert js.run_get_db("--version", cwd=tmp_path).stdout == f"{manifest['version']}\n"


def test_an_unknown_option_ends_with_2_and_a_sentence(js: Workspace, tmp_path: Path) -> None:
    done = js.run_get_db("--nope", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "get-db: Unknown option '--nope'. See get-db --help.\n"


def test_a_server_that_is_down_is_one_sentence_and_touches_nothing(js: Workspace, tmp_path: Path) -> None:
    done = js.run_get_db(cwd=tmp_path, INSTANT_BASE_URL="http://127.0.0.1:10")
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (1, "", [])
    assert done.stderr == (
        "get-db: http://127.0.0.1:10 cannot be reached (ECONNREFUSED); check that the platform is running and its "
        "URL is correct (--host or INSTANT_BASE_URL).\n"
    )


def test_who_interrupts_it_finds_the_folder_as_it_was(js: Workspace, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        address = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
        command = [js.node, str(js_workspace.GET_DB / "bin" / "get-db.js"), "-y", "--host", address]
        with subprocess.Popen(command, cwd=tmp_path, env=js.environment, stdin=subprocess.DEVNULL) as process:
            connection, _ = silent_server.accept()
            assert [file.name for file in tmp_path.iterdir()] == [".env.get-db-lock"]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            connection.close()
    assert list(tmp_path.iterdir()) == []


def test_the_default_address_is_set_at_build(js: Workspace, tmp_path: Path) -> None:
    shutil.copy(js_workspace.FOLDER / "tsconfig.base.json", tmp_path)
    shutil.copytree(js_workspace.GET_DB, tmp_path / "get-db", ignore=shutil.ignore_patterns("dist", "test"))
    (tmp_path / "node_modules").symlink_to(js_workspace.FOLDER / "node_modules")
    built = js.run(js.node, "build.js", cwd=tmp_path / "get-db", BOUGH_INSTANT_URL="http://127.0.0.1:11/")
    assert built.returncode == 0, built.stderr
    done = js.run(js.node, "get-db/bin/get-db.js", "-y", cwd=tmp_path, INSTANT_BASE_URL="")
    assert "http://127.0.0.1:11 cannot be reached" in done.stderr


def test_npm_knows_the_command_as_soon_as_the_workspace_is_installed(js: Workspace, tmp_path: Path) -> None:
    done = js.run(js_workspace.FOLDER / "node_modules" / ".bin" / "get-db", "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{bough.__version__}\n"), done.stderr


def test_claim_without_a_file_says_what_to_do(js: Workspace, tmp_path: Path) -> None:
    done = js.run_get_db("claim", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("get-db: ./.env has no variable that ends in INSTANT_CLAIM_URL; run get-db first")


def test_at_a_terminal_no_means_that_nothing_is_made(js: Workspace, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DATABASE_URL=mine\n")
    with Terminal(js, tmp_path, "--prefix", "APP_") as terminal:
        for question in ("Environment file", "Variable for the connection string", "SQL file"):
            terminal.answer(question, "\r")
        terminal.answer("Overwrite?", "n")
        assert terminal.check_exit_code(1)
    assert "nothing was created" in terminal.output
    assert (tmp_path / ".env").read_text() == "DATABASE_URL=mine\n"
    assert [file.name for file in tmp_path.iterdir()] == [".env"]


def test_at_a_terminal_a_bad_name_is_asked_for_again_and_ctrl_c_leaves(js: Workspace, tmp_path: Path) -> None:
    with Terminal(js, tmp_path, "--env", "x.env") as terminal:
        terminal.answer("Variable for the connection string", "1st\r")
        terminal.answer("Use letters, digits", "\x03")
        assert terminal.check_exit_code(130)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("package", "programs"), [("get-db", {"bin"}), ("vite-plugin", set())])
def test_a_package_has_its_program_and_nothing_else(js: Workspace, package: str, programs: set[str]) -> None:
    folder = js_workspace.FOLDER / package
    done = js.run(*js.npm, "pack", "--dry-run", "--json", "--ignore-scripts", cwd=folder)
    assert done.returncode == 0, done.stderr
    files = {file["path"] for file in json.loads(done.stdout)[0]["files"]}
    assert {"package.json", "README.md", "dist/index.js", "dist/index.d.ts"} <= files
    assert {Path(file).parts[0] for file in files} == {"package.json", "README.md", "dist", *programs}
