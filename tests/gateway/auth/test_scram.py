"""SCRAM as the RFCs have it, as Postgres stores it, and against clients that lie."""

import base64
import hashlib
import hmac

import pytest

import world
from bough.gateway.auth import scram
from bough.gateway.auth.scram import PLAIN, PLUS, Exchange, Verifier, WrongPassword
from bough.gateway.wire.malformed import Malformed
from bough.postgres.secret import scram_verifier
from gateway.auth.client import Client, stored

CERTIFICATE = hashlib.sha256(b"our certificate").digest()
TO_CERTIFICATE = "p=tls-server-end-point,,"


def verifier(password: bytes = b"s3cret", iterations: int = 4) -> Verifier:
    made = Verifier.parse(stored(password, b"0123456789abcdef", iterations))
    assert made is not None
    return made


def exchange(*, binding: bytes | None = CERTIFICATE, is_known: bool = True) -> Exchange:
    return Exchange(verifier(), binding, is_known=is_known)


def prove(client: Client, server: Exchange, mechanism: str) -> bytes:
    return server.final(client.final(server.first(mechanism, client.first())))


def test_the_exchange_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "_server_nonce", lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    known = Verifier.parse(scram_verifier("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")))
    assert known is not None
    server = Exchange(known, None, is_known=True)

    challenge = server.first(PLAIN, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    last = server.final(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


async def test_verifiers_that_postgres_made(postgres_server: world.PostgresServer) -> None:
    connection = await postgres_server._connect()
    for count, password in (
        (1, "a"),
        (4096, "pencil"),
        (123, "with, comma=and 'quote"),
        (2, "pässwörd"),
        (2, "🌿" * 20),
    ):
        async with connection.transaction():
            await connection.execute(f"set local scram_iterations = {count}")
            quoted = await connection.fetchval("select quote_literal($1::text)", password)
            await connection.execute(f"create role scram_test password {quoted}")
            kept = await connection.fetchval("select rolpassword from pg_authid where rolname = 'scram_test'")
            await connection.execute("drop role scram_test")
        known = Verifier.parse(kept)
        assert known is not None
        assert known.iterations == count
        client = Client(password.encode())
        assert client.believes(prove(client, Exchange(known, None, is_known=True), PLAIN))
    await connection.close()


@pytest.mark.parametrize(("mechanism", "header"), [(PLAIN, "n,,"), (PLUS, TO_CERTIFICATE)])
def test_with_and_without_binding(mechanism: str, header: str) -> None:
    client = Client(b"s3cret", header=header, bound=CERTIFICATE if mechanism == PLUS else b"")
    assert client.believes(prove(client, exchange(), mechanism))


def test_a_client_that_could_bind_where_nobody_can() -> None:
    client = Client(b"s3cret", header="y,,")
    server = exchange(binding=None)
    assert server.mechanisms == (PLAIN,)
    assert client.believes(prove(client, server, PLAIN))


def test_a_name_in_the_exchange_is_not_looked_at() -> None:
    """libpq sends none, JDBC a star, others the role; escaped commas pass too."""
    for name in ("", "*", "alice", "a=2Cb=3Dc", "ünï"):
        client = Client(b"s3cret", name=name)
        assert client.believes(prove(client, exchange(), PLAIN))


@pytest.mark.parametrize("mechanism", [PLAIN, PLUS])
def test_a_wrong_password_and_nobody_fail_alike(mechanism: str) -> None:
    header = TO_CERTIFICATE if mechanism == PLUS else "n,,"
    bound = CERTIFICATE if mechanism == PLUS else b""
    with pytest.raises(WrongPassword):
        prove(Client(b"other", header=header, bound=bound), exchange(), mechanism)
    with pytest.raises(WrongPassword):
        prove(Client(b"s3cret", header=header, bound=bound), exchange(is_known=False), mechanism)


def test_nobody_has_always_the_same_salt_and_a_count_like_others() -> None:
    one, again, other = (Verifier.of_nobody(b"secret", name) for name in ("ep-a\0alice", "ep-a\0alice", "ep-a\0bob"))
    assert one.salt == again.salt != other.salt
    assert (len(one.salt), one.iterations) == (16, 4096)
    assert one.stored_key != again.stored_key
    with pytest.raises(WrongPassword):
        prove(Client(b""), Exchange(one, None, is_known=False), PLAIN)


def test_nobody_costs_the_same_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    digest = hmac.digest

    def counted(key: bytes, text: bytes, name: str) -> bytes:
        hashed.append(len(text))
        return digest(key, text, name)

    monkeypatch.setattr(hmac, "digest", counted)
    client = Client(b"wrong")
    for is_known in (True, False):
        with pytest.raises(WrongPassword):
            prove(client, exchange(is_known=is_known), PLAIN)
    of_somebody, of_nobody = hashed[: len(hashed) // 2], hashed[len(hashed) // 2 :]
    assert of_somebody == of_nobody != []


class TestLies:
    """Each ends the exchange; those that mean somebody is in between with the code Postgres has for it."""

    def test_downgrade(self) -> None:
        with pytest.raises(Malformed, match="in between") as caught:
            exchange().first(PLAIN, b"y,,n=,r=abc")
        assert caught.value.code == "28000"

    @pytest.mark.parametrize("bound", [b"", hashlib.sha256(b"another certificate").digest()])
    def test_another_channel(self, bound: bytes) -> None:
        client = Client(b"s3cret", header=TO_CERTIFICATE, bound=bound)
        with pytest.raises(Malformed, match="certificate is another") as caught:
            prove(client, exchange(), PLUS)
        assert caught.value.code == "28000"

    def test_another_header_at_the_end(self) -> None:
        client, server = Client(b"s3cret"), exchange()
        answer = server.first(PLAIN, client.first())
        client.header = "y,,"
        with pytest.raises(Malformed, match="does not fit"):
            server.final(client.final(answer))

    def test_another_identity(self) -> None:
        with pytest.raises(Malformed, match="somebody else") as caught:
            exchange().first(PLAIN, b"n,a=admin,n=,r=abc")
        assert caught.value.code == "0A000"

    def test_an_old_nonce(self) -> None:
        client = Client(b"s3cret")
        recorded = client.final(exchange().first(PLAIN, client.first()))
        replayed = exchange()
        replayed.first(PLAIN, client.first())
        with pytest.raises(Malformed, match="another nonce"):
            replayed.final(recorded)

    def test_two_tries_in_one_exchange(self) -> None:
        server, wrong = exchange(), Client(b"wrong")
        answer = server.first(PLAIN, wrong.first())
        with pytest.raises(WrongPassword):
            server.final(wrong.final(answer))
        right = Client(b"s3cret")
        right.nonce = wrong.nonce
        with pytest.raises(Malformed):
            server.final(right.final(answer))

    def test_the_last_word_first(self) -> None:
        with pytest.raises(Malformed):
            exchange().final(b"c=,r=,p=" + base64.b64encode(bytes(32)))

    @pytest.mark.parametrize(
        ("mechanism", "first"),
        [
            ("SCRAM-SHA-1", b"n,,n=,r=abc"),
            ("", b"n,,n=,r=abc"),
            (PLAIN, b""),
            (PLAIN, b"n"),
            (PLAIN, b"n,,"),
            (PLAIN, b"x,,n=,r=abc"),
            (PLAIN, b"p=tls-server-end-point,,n=,r=abc"),
            (PLUS, b"n,,n=,r=abc"),
            (PLUS, b"y,,n=,r=abc"),
            (PLUS, b"p=tls-unique,,n=,r=abc"),
            (PLAIN, b"n,,m=ext,n=,r=abc"),
            (PLAIN, b"n,,n=,r="),
            (PLAIN, b"n,,n=,r=a b"),
            (PLAIN, b"n,,n=,r=\xc3\xa4"),
            (PLAIN, b"n,,n=,r=abc,junk"),
            (PLAIN, b"n,,n=,r=abc\0"),
            (PLAIN, b"n,,r=abc,n="),
            (PLAIN, b"\xff\xfe"),
        ],
    )
    def test_first_messages_that_are_none(self, mechanism: str, first: bytes) -> None:
        with pytest.raises(Malformed):
            exchange().first(mechanism, first)

    @pytest.mark.parametrize("proof", ["", "####", base64.b64encode(bytes(31)).decode(), "AAAA" * 100, "biws\n"])
    def test_proofs_that_are_none(self, proof: str) -> None:
        server = exchange()
        nonce = server.first(PLAIN, b"n,,n=,r=abc").split(b",")[0].decode()
        with pytest.raises(Malformed):
            server.final(f"c=biws,{nonce},p={proof}".encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "md5" + "0" * 32,
        "plain",
        stored(b"x", b"salt", 1).replace("SHA-256", "SHA-1"),
        stored(b"x", b"salt", 1).replace("$1:", "$0:"),
        stored(b"x", b"salt", 1).replace("$1:", "$-1:"),
        stored(b"x", b"salt", 1).replace("$1:", f"${2**31}:"),
        stored(b"x", b"salt", 1).replace("$1:", "$\u0663:"),
        stored(b"x", b"salt", 1)[:-4],
        stored(b"x", b"salt", 1) + "\n",
        "SCRAM-SHA-256$4096:!!!!$AAAA:AAAA",
        "SCRAM-SHA-256$4096:=$=:=",
    ],
)
def test_what_is_no_verifier(text: str) -> None:
    assert Verifier.parse(text) is None


def test_counts_up_to_the_largest_that_postgres_stores() -> None:
    known = Verifier.parse(stored(b"x", b"salt", 1).replace("$1:", f"${2**31 - 1}:"))
    assert known is not None
    assert b",i=2147483647" in Exchange(known, None, is_known=True).first(PLAIN, b"n,,n=,r=abc")
