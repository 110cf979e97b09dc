"""Cleartext passwords: the endpoint they name, and SASLprep as Postgres applies it."""

import random
import unicodedata

import pytest

from bough.errors import Denied
from bough.gateway.auth import password
from bough.gateway.auth.scram import ScramVerifier
from bough.gateway.wire import messages
from support.postgres import PostgresServer
from support.scram_client import make_verifier

PASSWORDS = [
    "pencil",
    "with space ",
    "\t\x7f",
    "pässwörd",
    "I\u00adX",  # the examples of RFC 4013
    "\u00aa",
    "\u2168",
    "a\u0007\u00e4",
    "\u0627\u0031",
    "\u0627a\u0628",
    "\u0627\u0031\u0628",
    "\u00ad",  # empty after mapping
    "a\u200bb",  # mapped to a space and to nothing
    "a\u3000b",
    "a\u1680b",
    "\u0340\u0341",
    "\u2126\u212b",  # ohm and angstrom
    "\ufb01n",  # a ligature
    "e\u0301",
    "\u0221",  # not assigned in Unicode 3.2
    "\u0378",  # never assigned
    "🌿🌿",
    "\ue000",  # private use
    "\ufdd0",
    "\u0378\ufb01",  # prohibited, so not normalized either
    "\u206a",
    "\U000e0041",
    "\ufe00a",
    "\u1806a",
]


async def _store_passwords(postgres_server: PostgresServer, passwords: list[str]) -> list[str]:
    """Return what Postgres stores for each password."""
    connection = await postgres_server.connect()
    try:
        async with connection.transaction():
            await connection.execute("set local scram_iterations = 1; create role prepared_test")
            await connection.execute("create temp table kept (n int, verifier text) on commit drop")
            await connection.execute(
                "create function pg_temp.keep(passwords text[]) returns void language plpgsql as $$begin"
                " for n in 1 .. array_length(passwords, 1) loop"
                "  execute format('alter role prepared_test password %L', passwords[n]);"
                "  insert into kept select n, rolpassword from pg_authid where rolname = 'prepared_test';"
                " end loop; end$$"
            )
            await connection.execute("select pg_temp.keep($1)", passwords)
            rows = await connection.fetch("select verifier from kept order by n")
            await connection.execute("drop role prepared_test")
    finally:
        await connection.close()
    return [row["verifier"] for row in rows]


async def test_passwords_are_prepared_as_postgres_does(postgres_server: PostgresServer, is_long_run: bool) -> None:
    """Known special cases, and many random ones: every table of RFC 3454 is represented."""
    rng = random.Random(7)
    plain = [c for c in map(chr, range(0x21, 0x3400)) if unicodedata.category(c) != "Cs"]
    odd = [chr(n) for n in (*range(0xF900, 0xFFFE), *range(0x1D100, 0x1D7FF), *range(0xE0000, 0xE0080), 0x10FFFD)]
    count = 15_000 if is_long_run else 2_000
    tried = PASSWORDS + [
        "".join(rng.choice(plain if rng.random() < 0.8 else odd) for _ in range(rng.randint(1, 3)))
        for _ in range(count)
    ]
    kept = await _store_passwords(postgres_server, tried)
    assert len(kept) == len(tried)
    wrong = [
        ascii(text)
        for text, verifier in zip(tried, kept, strict=True)
        if not password.verify_password(text, ScramVerifier.parse(verifier))  # type: ignore[arg-type]
    ]
    assert wrong == []


def test_a_password_that_is_not_utf_8_is_taken_as_it_is() -> None:
    """A client with another encoding stored the password as it sends it."""
    known = ScramVerifier.parse(make_verifier(b"p\xe4ss", b"salt", 2))
    assert known is not None
    assert password.verify_password(messages.parse_password(b"p\xe4ss\0"), known)
    assert not password.verify_password("päss", known)


def test_another_password_does_not_fit() -> None:
    known = ScramVerifier.parse(make_verifier(b"pencil", b"salt", 2))
    assert known is not None
    assert password.verify_password("pencil", known)
    for wrong in ("", "Pencil", "pencil ", "pencil\u00e4"):
        assert not password.verify_password(wrong, known)


def test_nobody_pays_for_counts_that_a_role_chose() -> None:
    known = ScramVerifier.parse(make_verifier(b"x", b"salt", 1).replace("$1:", "$2147483647:"))
    assert known is not None
    with pytest.raises(Denied, match="2147483647 iterations"):
        password.check_iterations(known)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("endpoint=ep-calm-sea-1a2b3c4d;pa;ss$word", ("ep-calm-sea-1a2b3c4d", "pa;ss$word")),
        ("endpoint=ep-calm-sea-1a2b3c4d$pa$ss;word", ("ep-calm-sea-1a2b3c4d", "pa$ss;word")),
        ("project=ep-calm-sea-1a2b3c4d;x", ("ep-calm-sea-1a2b3c4d", "x")),
        ("endpoint=ep-calm-sea-1a2b3c4d-pooler;x", ("ep-calm-sea-1a2b3c4d-pooler", "x")),
        ("endpoint=ep-a;", ("ep-a", "")),
        ("endpoint=ep-a;line\nbreak\udce4", ("ep-a", "line\nbreak\udce4")),
        ("endpoint=ep-a", None),
        ("endpoint=;x", None),
        ("endpoint=EP-A;x", None),
        (f"endpoint={'a' * 68};x", None),
        ("s3cret", None),
        ("", None),
    ],
)
def test_the_endpoint_in_front_of_a_password(text: str, found: tuple[str, str] | None) -> None:
    assert password.split_endpoint_password(text) == found
