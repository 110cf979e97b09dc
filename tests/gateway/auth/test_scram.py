"""SCRAM as the RFCs define it and Postgres stores it, and clients that cheat."""

import base64
import hashlib
import hmac

import pytest

from bough.gateway.auth import scram
from bough.gateway.auth.scram import SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramExchange, ScramVerifier, WrongPassword
from bough.gateway.wire.protocol_error import ProtocolError
from bough.postgres.scram import scram_verifier
from support.postgres import PostgresServer
from support.scram_client import ScramClient, make_verifier

CERTIFICATE = hashlib.sha256(b"our certificate").digest()
TO_CERTIFICATE = "p=tls-server-end-point,,"


def verifier(password: bytes = b"s3cret", iterations: int = 4) -> ScramVerifier:
    made = ScramVerifier.parse(make_verifier(password, b"0123456789abcdef", iterations))
    assert made is not None
    return made


def exchange(*, binding: bytes | None = CERTIFICATE, is_known: bool = True) -> ScramExchange:
    return ScramExchange(verifier(), binding, is_known=is_known)


def prove(client: ScramClient, server: ScramExchange, mechanism: str) -> bytes:
    return server.handle_client_final(
        client.final_message(server.handle_client_first(mechanism, client.first_message()))
    )


def test_the_exchange_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "_generate_nonce", lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    known = ScramVerifier.parse(scram_verifier("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")))
    assert known is not None
    server = ScramExchange(known, None, is_known=True)

    challenge = server.handle_client_first(SCRAM_SHA_256, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    last = server.handle_client_final(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


async def test_verifiers_that_postgres_made(postgres_server: PostgresServer) -> None:
    connection = await postgres_server.connect()
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
        known = ScramVerifier.parse(kept)
        assert known is not None
        assert known.iterations == count
        client = ScramClient(password.encode())
        assert client.verify_server(prove(client, ScramExchange(known, None, is_known=True), SCRAM_SHA_256))
    await connection.close()


@pytest.mark.parametrize(("mechanism", "header"), [(SCRAM_SHA_256, "n,,"), (SCRAM_SHA_256_PLUS, TO_CERTIFICATE)])
def test_with_and_without_binding(mechanism: str, header: str) -> None:
    client = ScramClient(b"s3cret", header=header, bound=CERTIFICATE if mechanism == SCRAM_SHA_256_PLUS else b"")
    assert client.verify_server(prove(client, exchange(), mechanism))


def test_a_client_that_could_bind_where_nobody_can() -> None:
    client = ScramClient(b"s3cret", header="y,,")
    server = exchange(binding=None)
    assert server.mechanisms == (SCRAM_SHA_256,)
    assert client.verify_server(prove(client, server, SCRAM_SHA_256))


def test_a_name_in_the_exchange_is_not_looked_at() -> None:
    """libpq sends no name, JDBC a star, others the role; escaped commas are valid too."""
    for name in ("", "*", "alice", "a=2Cb=3Dc", "ünï"):
        client = ScramClient(b"s3cret", name=name)
        assert client.verify_server(prove(client, exchange(), SCRAM_SHA_256))


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_256_PLUS])
def test_a_wrong_password_and_nobody_fail_alike(mechanism: str) -> None:
    header = TO_CERTIFICATE if mechanism == SCRAM_SHA_256_PLUS else "n,,"
    bound = CERTIFICATE if mechanism == SCRAM_SHA_256_PLUS else b""
    with pytest.raises(WrongPassword):
        prove(ScramClient(b"other", header=header, bound=bound), exchange(), mechanism)
    with pytest.raises(WrongPassword):
        prove(ScramClient(b"s3cret", header=header, bound=bound), exchange(is_known=False), mechanism)


def test_nobody_has_always_the_same_salt_and_a_count_like_others() -> None:
    one, again, other = (ScramVerifier.mock(b"secret", name) for name in ("ep-a\0alice", "ep-a\0alice", "ep-a\0bob"))
    assert one.salt == again.salt != other.salt
    assert (len(one.salt), one.iterations) == (16, 4096)
    assert one.stored_key != again.stored_key
    with pytest.raises(WrongPassword):
        prove(ScramClient(b""), ScramExchange(one, None, is_known=False), SCRAM_SHA_256)


def test_nobody_costs_the_same_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    digest = hmac.digest

    def counted(key: bytes, text: bytes, name: str) -> bytes:
        hashed.append(len(text))
        return digest(key, text, name)

    monkeypatch.setattr(hmac, "digest", counted)
    client = ScramClient(b"wrong")
    for is_known in (True, False):
        with pytest.raises(WrongPassword):
            prove(client, exchange(is_known=is_known), SCRAM_SHA_256)
    of_somebody, of_nobody = hashed[: len(hashed) // 2], hashed[len(hashed) // 2 :]
    assert of_somebody == of_nobody != []


class TestLies:
    """Each one ends the exchange; signs of a man in the middle have the SQLSTATE that Postgres uses."""

    def test_downgrade(self) -> None:
        with pytest.raises(ProtocolError, match="in between") as caught:
            exchange().handle_client_first(SCRAM_SHA_256, b"y,,n=,r=abc")
        assert caught.value.sqlstate == "28000"

    @pytest.mark.parametrize("bound", [b"", hashlib.sha256(b"another certificate").digest()])
    def test_another_channel(self, bound: bytes) -> None:
        client = ScramClient(b"s3cret", header=TO_CERTIFICATE, bound=bound)
        with pytest.raises(ProtocolError, match="certificate has changed") as caught:
            prove(client, exchange(), SCRAM_SHA_256_PLUS)
        assert caught.value.sqlstate == "28000"

    def test_another_header_at_the_end(self) -> None:
        client, server = ScramClient(b"s3cret"), exchange()
        reply = server.handle_client_first(SCRAM_SHA_256, client.first_message())
        client.gs2_header = "y,,"
        with pytest.raises(ProtocolError, match="does not match"):
            server.handle_client_final(client.final_message(reply))

    def test_another_identity(self) -> None:
        with pytest.raises(ProtocolError, match="another authorization identity") as caught:
            exchange().handle_client_first(SCRAM_SHA_256, b"n,a=admin,n=,r=abc")
        assert caught.value.sqlstate == "0A000"

    def test_an_old_nonce(self) -> None:
        client = ScramClient(b"s3cret")
        recorded = client.final_message(exchange().handle_client_first(SCRAM_SHA_256, client.first_message()))
        replayed = exchange()
        replayed.handle_client_first(SCRAM_SHA_256, client.first_message())
        with pytest.raises(ProtocolError, match="another nonce"):
            replayed.handle_client_final(recorded)

    def test_two_tries_in_one_exchange(self) -> None:
        server, wrong = exchange(), ScramClient(b"wrong")
        reply = server.handle_client_first(SCRAM_SHA_256, wrong.first_message())
        with pytest.raises(WrongPassword):
            server.handle_client_final(wrong.final_message(reply))
        right = ScramClient(b"s3cret")
        right.nonce = wrong.nonce
        with pytest.raises(ProtocolError):
            server.handle_client_final(right.final_message(reply))

    def test_the_last_word_first(self) -> None:
        with pytest.raises(ProtocolError):
            exchange().handle_client_final(b"c=,r=,p=" + base64.b64encode(bytes(32)))

    @pytest.mark.parametrize(
        ("mechanism", "first"),
        [
            ("SCRAM-SHA-1", b"n,,n=,r=abc"),
            ("", b"n,,n=,r=abc"),
            (SCRAM_SHA_256, b""),
            (SCRAM_SHA_256, b"n"),
            (SCRAM_SHA_256, b"n,,"),
            (SCRAM_SHA_256, b"x,,n=,r=abc"),
            (SCRAM_SHA_256, b"p=tls-server-end-point,,n=,r=abc"),
            (SCRAM_SHA_256_PLUS, b"n,,n=,r=abc"),
            (SCRAM_SHA_256_PLUS, b"y,,n=,r=abc"),
            (SCRAM_SHA_256_PLUS, b"p=tls-unique,,n=,r=abc"),
            (SCRAM_SHA_256, b"n,,m=ext,n=,r=abc"),
            (SCRAM_SHA_256, b"n,,n=,r="),
            (SCRAM_SHA_256, b"n,,n=,r=a b"),
            (SCRAM_SHA_256, b"n,,n=,r=\xc3\xa4"),
            (SCRAM_SHA_256, b"n,,n=,r=abc,junk"),
            (SCRAM_SHA_256, b"n,,n=,r=abc\0"),
            (SCRAM_SHA_256, b"n,,r=abc,n="),
            (SCRAM_SHA_256, b"\xff\xfe"),
        ],
    )
    def test_first_messages_that_are_none(self, mechanism: str, first: bytes) -> None:
        with pytest.raises(ProtocolError):
            exchange().handle_client_first(mechanism, first)

    @pytest.mark.parametrize("proof", ["", "####", base64.b64encode(bytes(31)).decode(), "AAAA" * 100, "biws\n"])
    def test_proofs_that_are_none(self, proof: str) -> None:
        server = exchange()
        nonce = server.handle_client_first(SCRAM_SHA_256, b"n,,n=,r=abc").split(b",")[0].decode()
        with pytest.raises(ProtocolError):
            server.handle_client_final(f"c=biws,{nonce},p={proof}".encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "md5" + "0" * 32,
        "plain",
        make_verifier(b"x", b"salt", 1).replace("SHA-256", "SHA-1"),
        make_verifier(b"x", b"salt", 1).replace("$1:", "$0:"),
        make_verifier(b"x", b"salt", 1).replace("$1:", "$-1:"),
        make_verifier(b"x", b"salt", 1).replace("$1:", f"${2**31}:"),
        make_verifier(b"x", b"salt", 1).replace("$1:", "$\u0663:"),
        make_verifier(b"x", b"salt", 1)[:-4],
        make_verifier(b"x", b"salt", 1) + "\n",
        "SCRAM-SHA-256$4096:!!!!$AAAA:AAAA",
        "SCRAM-SHA-256$4096:=$=:=",
    ],
)
def test_what_is_no_verifier(text: str) -> None:
    assert ScramVerifier.parse(text) is None


def test_counts_up_to_the_largest_that_postgres_stores() -> None:
    known = ScramVerifier.parse(make_verifier(b"x", b"salt", 1).replace("$1:", f"${2**31 - 1}:"))
    assert known is not None
    assert b",i=2147483647" in ScramExchange(known, None, is_known=True).handle_client_first(
        SCRAM_SHA_256, b"n,,n=,r=abc"
    )
