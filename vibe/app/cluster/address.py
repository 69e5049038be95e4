"""The address of a cluster, the certificates for its links, and whether it can be reached with them.

Whoever reaches a Dask scheduler can run programs on its workers, so links to other machines use TLS both ways.
"""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from ipc.places import is_loopback
from vibe.system.errors import EnvironmentFailure, UsageError

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.pem", "cert.pem", "key.pem"
CONNECT_SECONDS = 4.0
MOST_LOCAL = 32
"""The most workers that a run starts on this machine. Each is a process with children of its own."""
RENEW = "make new ones with `vibe cluster certs DIR` and give them to every machine of the cluster"
_LOCAL = re.compile(r"local:([1-9][0-9]{0,2})(?:x([1-9][0-9]{0,3}))?")
_LINK = re.compile(r"(tls|tcp)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
_UNTIMELY = {9: "is not valid yet by the clock here: correct this machine's clock", 10: f"has expired: {RENEW}"}
"""The problem of a certificate that is not of this time, by OpenSSL's error number."""


class ClusterError(EnvironmentFailure):
    """A cluster can't be used. If it ``is_there``, waiting for it is of no use."""

    def __init__(self, address: str, problem: object, *, is_there: bool = True) -> None:
        super().__init__(f"the cluster {address} can't be used: {str(problem) or 'it does not answer'}")
        self.is_there = is_there


class ClusterAddress(Struct, frozen=True, kw_only=True):
    """The address of a scheduler or, for ``local:N[xM]``, the number of workers to start here and of their slots."""

    text: str
    host: str = ""
    port: int = 0
    is_encrypted: bool = False
    workers: int = 0
    slots: int = 0
    """0 means as many as the run's steps need."""


class Certificates(Struct, frozen=True, kw_only=True):
    """The files by which the machines of one cluster recognise each other.

    ``expires`` is the earliest expiry among them.
    """

    ca: Path
    certificate: Path
    key: Path
    expires: datetime

    @property
    def files(self) -> tuple[str, str, str]:
        """The paths of the authority, the certificate and its key."""
        return str(self.ca), str(self.certificate), str(self.key)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a link to a scheduler."""
        context = ssl.create_default_context(cafile=self.ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it, and ours have no key identifiers
        context.check_hostname = False  # a certificate of this authority is enough, on whatever host it is used
        context.load_cert_chain(self.certificate, self.key)
        return context


def check_installed() -> None:
    """Check that Dask is installed, without importing it.

    Raises:
        UsageError: it is not.
    """
    if find_spec("distributed") is None or find_spec("cryptography") is None:
        raise UsageError("steps on a cluster need Dask, which is not installed: install vibe-orchestrator[cluster]")


def parse_address(text: str, *, lowest_port: int = 1) -> ClusterAddress:
    """Parse an address. Port 0 means any free one.

    Raises:
        UsageError: it is not an address, or one on another machine without TLS.
    """
    if own := _LOCAL.fullmatch(text):
        if int(own[1]) > MOST_LOCAL:
            raise UsageError(f"{text}: at most {MOST_LOCAL} workers run on this machine: name fewer, or other machines")
        return ClusterAddress(text=text, workers=int(own[1]), slots=int(own[2] or 0))
    link = _LINK.fullmatch(text)
    if link is None or not lowest_port <= int(link[3]) <= 65_535:
        raise UsageError(f"{text!r} is not a cluster's address: write tls://HOST:PORT, tcp://127.0.0.1:PORT or local:N")
    host = link[2].strip("[]")
    if link[1] == "tcp" and not is_loopback(host):
        raise UsageError(
            f"{text}: whoever reaches a scheduler runs programs on its workers, so tcp:// is for this machine alone: "
            "use tls:// with the certificates of `vibe cluster certs`"
        )
    return ClusterAddress(text=text, host=host, port=int(link[3]), is_encrypted=link[1] == "tls")


def read_certificates(folder: str) -> Certificates:
    """Read the certificates in a folder.

    Raises:
        UsageError: no folder is named, or the files are missing or are not certificates.
        EnvironmentFailure: a file can't be read, or a certificate has expired.
    """
    if not folder:
        raise UsageError(
            "a cluster of several machines needs certificates: make them with `vibe cluster certs DIR`, and name DIR "
            "by `certificates` in [cluster] of your settings"
        )
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415  links of this machine need none

    ca, own, key = (Path(folder, name) for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE))
    try:
        ends = [load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc for file in (ca, own)]
        found = Certificates(ca=ca, certificate=own, key=key, expires=min(ends))
        found.context()
    except FileNotFoundError as error:
        missing = error.filename or key
        raise UsageError(f"{missing} is not there: make certificates with `vibe cluster certs {folder}`") from error
    except (ValueError, ssl.SSLError) as error:
        raise UsageError(f"{folder} holds no certificates of a cluster ({error}): {RENEW}") from error
    except OSError as error:
        raise EnvironmentFailure(f"{folder}: {error.strerror}: correct the permissions of its files") from error
    if found.expires <= datetime.now(UTC):
        raise EnvironmentFailure(f"the certificates in {folder} expired on {found.expires:%Y-%m-%d}: {RENEW}")
    return found


def check_cluster(text: str, folder: str) -> Certificates | None:
    """Check that steps could be done on a cluster, and reach its scheduler.

    Blocks for 8 s at most, and starts nothing.

    Returns the certificates for it; None if it needs none.

    Raises:
        UsageError: the address or a setting is wrong, or Dask is not installed.
        EnvironmentFailure: there is no scheduler that accepts us.
    """
    check_installed()
    address = parse_address(text)
    certificates = read_certificates(folder) if address.is_encrypted else None
    if address.host:
        reach(address, certificates)
    return certificates


def reach(address: ClusterAddress, certificates: Certificates | None) -> None:
    """Wait for the first byte from a scheduler or a worker, which it sends only to those it accepts.

    Blocks for 8 s at most.

    Raises:
        ClusterError: there is none, or it does not accept us, or we don't accept it.
    """
    is_there = False
    try:
        link = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        if certificates is not None:
            link = certificates.context().wrap_socket(link)
        with closing(link):
            answered = bool(link.recv(1))
        problem = "" if answered else "no scheduler that accepts such a link listens there"
    except OSError as error:
        problem = _problem_text(error)
        is_there = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)
    if problem:
        raise ClusterError(address.text, problem, is_there=is_there)


def _problem_text(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        other = f"is of another authority than our {CA_FILE}: use the certificates it was started with"
        return f"its certificate {_UNTIMELY.get(error.verify_code, other)}"
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return f"it does not take our certificate ({error.reason}): use the certificates it was started with"
    if isinstance(error, ssl.SSLError):
        return f"what listens there does not speak TLS ({error.reason}): start it with `vibe cluster scheduler`"
    if isinstance(error, TimeoutError):
        return f"no scheduler answers within {CONNECT_SECONDS:g} s: start it, or correct the address"
    return f"{error.strerror or error}: start its scheduler, or correct the address"
