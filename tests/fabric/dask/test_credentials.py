"""The token of a cluster: where it is found, which are refused, and the certificates made from it."""

from __future__ import annotations

import datetime
import pathlib
import socket
import ssl
import stat

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from cryptography import x509

from skate.fabric.dask.credentials import LEAF_LIFETIME, RENEWAL_MARGIN, Credentials, find_token, make_token
from tests.fabric.dask.carriers import OTHER_TOKEN, TOKEN


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> x509.Certificate:
    """Make a TLS connection in memory; return the server's certificate as the client sees it."""
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(wires[0], wires[1])
    two = server.wrap_bio(wires[1], wires[0], server_side=True)
    waiting = [one, two]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    two_has = two.getpeercert(binary_form=True)
    assert two_has, "the server asks for a certificate as well"
    assert one.version() == "TLSv1.3"
    shown = one.getpeercert(binary_form=True)
    assert shown
    return x509.load_der_x509_certificate(shown)


def contexts(credentials: Credentials) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    security = credentials.security
    return (
        security.get_connection_args("worker")["ssl_context"],
        security.get_listen_args("scheduler")["ssl_context"],
    )


def test_two_processes_of_one_token_trust_each_other() -> None:
    one, two = Credentials(TOKEN), Credentials(TOKEN)
    authorities = [
        x509.load_pem_x509_certificate(each.security.tls_ca_file.encode()).tbs_certificate_bytes
        for each in (one, two)
    ]
    assert authorities[0] == authorities[1]
    shown = handshake(contexts(one)[0], contexts(two)[1])
    assert shown.not_valid_after_utc - shown.not_valid_before_utc == LEAF_LIFETIME + datetime.timedelta(
        days=1
    )


def test_another_token_is_refused() -> None:
    one, two = Credentials(TOKEN), Credentials(OTHER_TOKEN)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(contexts(one)[0], contexts(two)[1])


def test_a_new_certificate_reaches_what_listens_already() -> None:
    one, two = Credentials(TOKEN), Credentials(TOKEN)
    dials, listens = contexts(one)[0], contexts(two)[1]
    before = handshake(dials, listens).serial_number
    two.renew_if_due()
    assert handshake(dials, listens).serial_number == before
    two.expires -= LEAF_LIFETIME - RENEWAL_MARGIN + datetime.timedelta(seconds=1)
    two.renew_if_due()
    assert handshake(dials, listens).serial_number != before
    assert handshake(dials, contexts(two)[1]).serial_number != before


def test_the_token_is_no_part_of_what_dask_prints() -> None:
    credentials = Credentials(TOKEN)
    assert TOKEN not in repr(credentials.security)
    assert "PRIVATE KEY" not in repr(credentials.security)


@pytest.mark.parametrize("weak", ["", "secret", TOKEN[:31], "A" * 40, "aAbBcCdDeEfFgGhHiIjJk"])
def test_a_token_that_can_be_guessed_is_refused(weak: str) -> None:
    with pytest.raises(ValueError, match="too weak for a network port"):
        Credentials(weak)


def test_22_characters_of_base64_are_enough() -> None:
    Credentials("aAbBcCdDeEfFgGhHiIjJkK")


@pytest.fixture
def surroundings(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for prefix in ("SKATE", "RAY"):
        monkeypatch.delenv(f"{prefix}_AUTH_TOKEN", raising=False)
        monkeypatch.delenv(f"{prefix}_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_order_in_which_tokens_are_looked_for(
    surroundings: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(name: str) -> str:
        path = surroundings / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"of {name}\n")
        return str(path)

    assert find_token() is None
    written(".skate/token")
    assert find_token() == "of .skate/token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", written("ray"))
    assert find_token() == "of ray"
    monkeypatch.setenv("RAY_AUTH_TOKEN", " of Ray's variable ")
    assert find_token() == "of Ray's variable"
    monkeypatch.setenv("SKATE_AUTH_TOKEN_PATH", written("skate"))
    assert find_token() == "of skate"
    monkeypatch.setenv("SKATE_AUTH_TOKEN", "of Skate's variable")
    assert find_token() == "of Skate's variable"
    assert find_token(written("named")) == "of named"


def test_a_named_file_must_have_a_token(surroundings: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="the token file, /nowhere, cannot be read: No such file"):
        find_token("/nowhere")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/nowhere")
    with pytest.raises(ValueError, match="the token file of RAY_AUTH_TOKEN_PATH, /nowhere, cannot be read"):
        find_token()
    (surroundings / "empty").touch()
    with pytest.raises(ValueError, match="is empty"):
        find_token(str(surroundings / "empty"))


def test_a_new_token_is_strong_and_private(surroundings: pathlib.Path) -> None:
    path = surroundings / "node" / "token"
    token = make_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_token(str(path)) == token
    assert len(token) == 64
    Credentials(token)
    with pytest.raises(FileExistsError):
        make_token(path)


def test_plain_bytes_are_refused_before_anything_is_read() -> None:
    """A peer without TLS gets no further than the handshake, whatever it sends."""
    from tests.fabric.dask.carriers import Carriers

    carriers = Carriers()
    try:
        head = carriers.head()
        host, _, port = head.address.rpartition("://")[2].rpartition(":")
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"\x80\x04." * 100, bytes(1 << 12)):
            with socket.create_connection((host, int(port)), timeout=10) as peer:
                peer.sendall(said)
                answer = b""
                try:
                    while piece := peer.recv(1000):
                        answer += piece
                except ConnectionResetError:
                    pass
                assert len(answer) < 16, "at most an alert of TLS"
    finally:
        carriers.end()
