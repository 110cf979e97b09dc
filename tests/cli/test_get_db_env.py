"""The environment file of `bough get-db`: our block is written, and nothing else changes."""

import errno
import os
import socket
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.cli.get_db import command, dotenv
from bough.cli.get_db.dotenv import VariableNames, insert_block, make_block, parse_variables
from bough.cli.get_db.env_file import EnvFile, EnvFileError
from bough.cli.get_db.options import GetDbRequest
from bough_client.instant import InstantDatabaseResponse

EXPIRES = datetime(2026, 11, 20, 2, 19, 51, tzinfo=UTC)
CLAIM = "http://localhost:8432/claim/0199a1b2-0000-7000-8000-000000000001"
POOLED = "postgresql://neondb_owner:pw@ep-a-1-pooler.localhost/neondb?channel_binding=require&sslmode=require"
DIRECT = POOLED.replace("-pooler", "")
OURS = make_block(
    VariableNames("DATABASE_URL", "PUBLIC_"), pooled=POOLED, direct=DIRECT, claim_url=CLAIM, expires_at=EXPIRES
)
OLDER = make_block(
    VariableNames("DATABASE_URL", "PUBLIC_"),
    pooled="postgresql://old",
    direct="postgresql://older",
    claim_url="http://old/claim/1",
    expires_at=EXPIRES - timedelta(days=9),
)
WRITTEN = f"""\
# Expires at: Fri, 20 Nov 2026 02:19:51 GMT
# Claim it at: {CLAIM}
DATABASE_URL={POOLED}
DATABASE_URL_DIRECT={DIRECT}
PUBLIC_INSTANT_CLAIM_URL={CLAIM}
""".encode()
CRLF = WRITTEN.replace(b"\n", b"\r\n")


def test_a_new_file_has_two_remarks_and_three_variables() -> None:
    assert insert_block(b"", OURS) == WRITTEN


def test_the_expiration_is_an_http_date_in_gmt_wherever_the_clock_is() -> None:
    assert dotenv.format_http_date(EXPIRES.astimezone(timezone(timedelta(hours=-7)))) == "Fri, 20 Nov 2026 02:19:51 GMT"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"A=1\n", b"A=1\n" + WRITTEN),
        (b"A=1", b"A=1\n" + WRITTEN),
        (b"A=1\r\nB=2", b"A=1\r\nB=2\r\n" + CRLF),
        (b"A=1\r\n", b"A=1\r\n" + CRLF),
        (b"\n\n", b"\n\n" + WRITTEN),
        (b"# DATABASE_URL=no\nMY_DATABASE_URL=x\n", b"# DATABASE_URL=no\nMY_DATABASE_URL=x\n" + WRITTEN),
        (b"A='\nDATABASE_URL=in a value\n'\n", b"A='\nDATABASE_URL=in a value\n'\n" + WRITTEN),
        (b'A="unclosed\n\xff\xfe', b'A="unclosed\n\xff\xfe\n' + WRITTEN),
    ],
)
def test_the_block_goes_to_the_end_of_a_file_without_it(before: bytes, after: bytes) -> None:
    assert not set(parse_variables(before)) & set(OURS.variables)
    assert insert_block(before, OURS) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"A=1\nDATABASE_URL=x\nB=2\n", b"A=1\n" + WRITTEN + b"B=2\n"),
        (b"A=1\nDATABASE_URL=", b"A=1\n" + WRITTEN),
        (b'A=1\n DATABASE_URL = "x\ny" # z\nB', b"A=1\n" + WRITTEN + b"B"),
        (b"DATABASE_URL: x\r\nB=2", CRLF + b"B=2"),
        (b"DATABASE_URL_DIRECT='x'\n#\nDATABASE_URL=`y`\n", WRITTEN + b"#\n"),
        (b"\xef\xbb\xbfDATABASE_URL=x\n", b"\xef\xbb\xbf" + WRITTEN),
        (b"# mine\nPUBLIC_INSTANT_CLAIM_URL=x\n# mine too", b"# mine\n" + WRITTEN + b"# mine too"),
        (b"#1\n# Expires at: y\n# Claim it at: z\nDATABASE_URL=x\nB=2\n", b"#1\n" + WRITTEN + b"B=2\n"),
    ],
)
def test_after_asking_the_block_stands_where_the_first_of_its_variables_stood(before: bytes, after: bytes) -> None:
    assert set(parse_variables(before)) & set(OURS.variables)
    assert insert_block(before, OURS) == after


def test_a_variable_that_was_exported_still_is_and_a_shell_can_read_it() -> None:
    after = insert_block(b"export DATABASE_URL=x\n", OURS)
    assert after == WRITTEN.replace(f"DATABASE_URL={POOLED}".encode(), f"export DATABASE_URL='{POOLED}'".encode(), 1)


WORD = st.text("ABC_1", min_size=1, max_size=5).map(str.encode)
PLAIN = st.text("aé =:&.", max_size=6).map(str.encode)
QUOTED = st.builds(
    lambda quote, lines: quote + b"\n".join(lines) + quote, st.sampled_from([b"'", b'"']), st.lists(PLAIN)
)
VALUE = PLAIN | QUOTED
LINE = st.one_of(
    st.builds(lambda name, value: name + b"=" + value, WORD, VALUE),
    st.builds(lambda name, value: b"export " + name + b" = " + value, WORD, VALUE),
    PLAIN.map(lambda text: b"#" + text),
    st.just(b""),
)
LINES = st.lists(st.builds(bytes.__add__, LINE, st.sampled_from([b"\n", b"\r\n"])), max_size=5).map(b"".join)


@given(st.binary(max_size=60).filter(lambda content: not set(parse_variables(content)) & set(OURS.variables)))
def test_whatever_was_in_the_file_is_still_there_byte_for_byte(content: bytes) -> None:
    after = insert_block(content, OURS)
    assert after.startswith(content)
    added = after.removeprefix(content)
    assert added.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removeprefix(b"\n") == WRITTEN
    assert {**parse_variables(content), **OURS.variables} == parse_variables(after)


@given(LINES, LINES)
def test_an_older_block_is_replaced_and_its_neighbours_stay_byte_for_byte(above: bytes, below: bytes) -> None:
    ending = b"\r\n" if b"\r\n" in (above + b"\n").splitlines(keepends=True)[0] else b"\n"
    older, newer = (b"".join(line.encode() + ending for line in each.lines()) for each in (OLDER, OURS))
    assert insert_block(above + older + below, OURS) == above + newer + below


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_new_file_is_its_owners_only(tmp_path: Path) -> None:
    file = EnvFile.read(str(tmp_path / ".env"))
    file.check_writable()
    assert names_in(tmp_path) == []
    file.replace(WRITTEN)
    assert (tmp_path / ".env").read_bytes() == WRITTEN
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o660])
def test_a_file_that_was_there_keeps_its_mode_and_owner(tmp_path: Path, mode: int) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"A=1\n")
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65533)
    before = path.stat()
    EnvFile.read(str(path)).replace(WRITTEN)
    after = path.stat()
    assert (path.read_bytes(), names_in(tmp_path)) == (WRITTEN, [".env"])
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_a_link_is_followed_to_read_and_refused_to_write(tmp_path: Path) -> None:
    target, link = tmp_path / "there", tmp_path / ".env"
    target.write_bytes(b"A=1\n")
    link.symlink_to("there")
    file = EnvFile.read(str(link))
    assert file.content == b"A=1\n"
    with pytest.raises(EnvFileError, match=f"is a symbolic link.*--env {target}"):
        file.check_writable()
    assert link.is_symlink()
    assert target.read_bytes() == b"A=1\n"


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _read_only(path: Path) -> None:
    path.write_bytes(b"A=1\n")
    path.chmod(0o444)


def _device(path: Path) -> None:
    path.symlink_to(os.devnull)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _utf_16(path: Path) -> None:
    path.write_text("A=1\n", encoding="utf-16")


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is not a regular file"),
        (_socket, "is not a regular file"),
        (_device, "is not a regular file"),
        (_dangling, "is a symbolic link to a missing file"),
        (_loop, "is a symbolic link to a missing file"),
        (_read_only, "is read-only"),
        (_utf_16, "is not UTF-8 text"),
    ],
)
def test_what_cannot_be_replaced_is_refused_and_not_touched(
    tmp_path: Path, make: Callable[[Path], None], phrase: str
) -> None:
    path = tmp_path / "e"
    make(path)
    before = path.lstat()
    with pytest.raises(EnvFileError, match=phrase):
        EnvFile.read(str(path)).check_writable()
    after = path.lstat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    assert names_in(tmp_path) == ["e"]


@pytest.mark.parametrize(
    ("path", "phrase"),
    [
        ("/proc/self/.env", "cannot be written: "),
        ("no/folder/.env", "The folder .* does not exist"),
        ("/dev/null/.env", "folder"),
    ],
)
def test_a_folder_that_takes_no_file_is_refused(path: str, phrase: str) -> None:
    with pytest.raises(EnvFileError, match=phrase):
        EnvFile.read(path).check_writable()


def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"A=1\n")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = EnvFile.read(str(path))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvFileError, match="No space left on device"):
        file.replace(WRITTEN)
    assert (path.read_bytes(), names_in(tmp_path)) == (b"A=1\n", [".env"])


def test_a_key_that_comes_meanwhile_is_not_overwritten_and_the_database_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ".env"
    names = VariableNames("DATABASE_URL", "PUBLIC_")
    request = GetDbRequest(str(path), names, seed=None, logical_replication=False, ref="me", host="http://localhost")
    database = InstantDatabaseResponse("id", "UNCLAIMED", "p", POOLED, CLAIM, EXPIRES, EXPIRES, EXPIRES)
    checked = EnvFile.read(str(path))
    path.write_bytes(b"DATABASE_URL=theirs\n")
    with pytest.raises(EnvFileError, match="Another program has added DATABASE_URL to"):
        command._write_env_file(request, checked, database)
    assert path.read_bytes() == b"DATABASE_URL=theirs\n"
    assert capsys.readouterr().out.encode() == WRITTEN
