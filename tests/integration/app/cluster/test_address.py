"""Addresses of clusters, their certificates, and the messages about a scheduler that can't be reached with them."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from vibe.app.cluster import address, certificates
from vibe.app.cluster.address import Certificates, check_cluster, parse_address, read_certificates
from vibe.app.cluster.certificates import write_certificates
from vibe.system.errors import EnvironmentFailure, UsageError

Wrap = Callable[[socket.socket], socket.socket]


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return write_certificates(tmp_path / "own")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "CONNECT_SECONDS", 1.0)


def by_tls(certificates: Certificates) -> Wrap:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as Dask does; Python 3.13 or newer sets it
    context.load_cert_chain(certificates.certificate, certificates.key)
    return lambda link: context.wrap_socket(link, server_side=True)


@contextmanager
def listening(wrap: Wrap, word: bytes = b"dask" * 16) -> Generator[int]:
    """Accept one connection, and speak first as Dask does."""

    def serve() -> None:
        with suppress(OSError), wrap(server.accept()[0]) as link:
            link.sendall(word)
            while link.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def test_a_scheduler_of_the_same_authority_is_reached(made: Certificates) -> None:
    with listening(by_tls(made)) as port:
        assert check_cluster(f"tls://127.0.0.1:{port}", str(made.ca.parent)) == read_certificates(str(made.ca.parent))


def test_another_authority_is_named_at_either_end(made: Certificates, tmp_path: Path) -> None:
    other = write_certificates(tmp_path / "other")
    with (
        listening(by_tls(other)) as port,
        pytest.raises(EnvironmentFailure, match=r"of another authority than our ca.pem"),
    ):
        check_cluster(f"tls://127.0.0.1:{port}", str(made.ca.parent))

    other.ca.write_bytes(made.ca.read_bytes())  # the test trusts their certificates, but they do not trust the test's
    with listening(by_tls(made)) as port, pytest.raises(EnvironmentFailure, match="does not take our certificate"):
        check_cluster(f"tls://127.0.0.1:{port}", str(tmp_path / "other"))


def test_certificates_whose_time_is_over_are_refused_before_any_link(tmp_path: Path) -> None:
    write_certificates(tmp_path / "old", timedelta(seconds=-1))

    with pytest.raises(EnvironmentFailure, match=r"the certificates in .*old expired on 20"):
        check_cluster("tls://127.0.0.1:1", str(tmp_path / "old"))


def test_a_certificate_from_the_future_is_said_to_be_a_matter_of_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "SKEW", timedelta(hours=-1))
    early = write_certificates(tmp_path / "early")

    with listening(by_tls(early)) as port, pytest.raises(EnvironmentFailure, match="correct this machine's clock"):
        check_cluster(f"tls://127.0.0.1:{port}", str(early.ca.parent))


def test_what_is_no_scheduler_is_said(made: Certificates) -> None:
    folder = str(made.ca.parent)
    with listening(lambda link: link) as port, pytest.raises(EnvironmentFailure, match="does not speak TLS"):
        check_cluster(f"tls://127.0.0.1:{port}", folder)
    with (
        listening(lambda link: link, b"") as port,
        pytest.raises(EnvironmentFailure, match="no scheduler answers within 1 s"),
    ):
        check_cluster(f"tcp://127.0.0.1:{port}", "")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(EnvironmentFailure, match="Connection refused: start its scheduler"):
        check_cluster(f"tcp://127.0.0.1:{port}", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tcp://build:8786", "tcp:// is for this machine alone"),
        ("tcp://0.0.0.0:8786", "tcp:// is for this machine alone"),
        ("tls://build:0", "is not a cluster's address"),
        ("tls://build:8786/x", "is not a cluster's address"),
        ("local:0", "is not a cluster's address"),
        ("local:33", "at most 32 workers run on this machine"),
        ("tls://build:8786", "a cluster of several machines needs certificates"),
    ],
)
def test_what_is_no_address_or_has_no_tls_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_cluster(text, "")


def test_addresses_are_read() -> None:
    assert parse_address("local:3x4").workers == 3
    assert parse_address("local:3x4").slots == 4
    assert parse_address("tcp://[::1]:8786").host == "::1"
    assert parse_address("tls://build:8786").is_encrypted


def test_certificates_are_written_once_for_their_owner_alone(made: Certificates, tmp_path: Path) -> None:
    assert [oct(file.stat().st_mode & 0o777) for file in (made.ca, made.certificate, made.key)] == ["0o600"] * 3
    before = made.key.read_bytes()
    made.ca.unlink()

    with pytest.raises(UsageError, match=r"cert.pem is there already"):
        write_certificates(tmp_path / "own")

    assert (made.key.read_bytes(), made.ca.exists()) == (before, False)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "key.pem is not there: make certificates"), ("nothing", "holds no certificates of a cluster")],
)
def test_files_that_are_no_certificates_are_said(content: str | None, says: str, made: Certificates) -> None:
    made.key.unlink()
    if content is not None:
        made.key.write_text(content)

    with pytest.raises(UsageError, match=says):
        read_certificates(str(made.ca.parent))


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        pass

    monkeypatch.setattr(address, "find_spec", nothing)

    with pytest.raises(UsageError, match=r"install vibe-orchestrator\[cluster\]"):
        check_cluster("local:2", "")
