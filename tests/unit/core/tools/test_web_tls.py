from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fakes.network import PUBLIC, FakeNetwork
from tests.fakes.web_server import Page, WebServer
from vibe.core.tools.builtins.web_fetch import fetch, parse_url
from vibe.core.tools.errors import ToolError
from vibe.system.http import trust_advice

PAGE = Page(b"hello", headers={"Content-Type": "text/plain"})


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Write a certificate for example.com and its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example.com")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509
        .CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("example.com")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "server.pem"
    path.write_bytes(private + made.public_bytes(pem))
    return path


async def test_the_name_of_the_url_is_asked_for_and_proven_though_the_address_is_pinned(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    asked: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: asked.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    names = {"example.com": [[PUBLIC]], "other.example": [[PUBLIC]]}

    with WebServer({"/": PAGE}, tls=serving).running() as server:
        network = FakeNetwork(server.port, names)
        response = await fetch(parse_url("https://example.com/"), network, max_bytes=1_000)

        assert (response.status, response.body) == (200, b"hello")
        assert (asked, server.hosts, network.connected) == (["example.com"], ["example.com"], [(PUBLIC, 443)])
        with pytest.raises(ToolError, match=r"can't be reached .*; use the host name that its certificate is for"):
            await fetch(parse_url("https://other.example/"), network, max_bytes=1_000)
        assert server.hosts == ["example.com"]


async def test_a_file_of_certificates_that_other_programs_are_told_of_is_trusted_too_and_a_refusal_says_what_helps(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")

    with WebServer({"/": PAGE}, tls=serving).running() as server:
        network = FakeNetwork(server.port, {"example.com": [[PUBLIC]]})
        with pytest.raises(ToolError, match=r"its CA in SSL_CERT_FILE, which is '/nowhere.pem' now, or have"):
            await fetch(parse_url("https://example.com/"), network, max_bytes=1_000)
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            with monkeypatch.context() as here:
                here.setenv(name, str(certificate))
                assert (await fetch(parse_url("https://example.com/"), network, max_bytes=1_000)).body == b"hello"


def test_only_a_refused_certificate_is_one() -> None:
    expired = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)"
    assert "clock" in trust_advice(expired)
    assert trust_advice("[Errno 111] Connection refused") == ""
