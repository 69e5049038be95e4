"""The address of a cluster, the certificates its links are made with, and whether one can be reached with them.

Whoever reaches a scheduler of Dask runs programs on its workers, so off this machine a link is TLS both ways.
"""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from vibe.system.errors import EnvironmentFailure, UsageError

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.pem", "cert.pem", "key.pem"
CONNECT_SECONDS = 4.0
MOST_LOCAL = 32
"""Workers that a run starts on this machine; each is a program of its own, with its programs."""
RENEW = "make new ones with `vibe cluster certs DIR` and give them to every machine of the cluster"
_LOCAL = re.compile(r"local:([1-9][0-9]{0,2})(?:x([1-9][0-9]{0,3}))?")
_LINK = re.compile(r"(tls|tcp)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
_EXPIRED = 10
"""OpenSSL's number for a certificate whose time is over."""


class ClusterAddress(Struct, frozen=True, kw_only=True):
    """Address of a scheduler, or, of ``local:N[xM]``, the number of workers a run starts here, and of their slots."""

    text: str
    host: str = ""
    port: int = 0
    is_encrypted: bool = False
    workers: int = 0
    slots: int = 0
    """0: as many as the run's steps need."""


class Certificates(Struct, frozen=True, kw_only=True):
    """The files by which the machines of one cluster know each other. ``expires`` is when the first of them does."""

    ca: Path
    certificate: Path
    key: Path
    expires: datetime

    @property
    def files(self) -> tuple[str, str, str]:
        """The paths of the authority, the certificate and its key."""
        return str(self.ca), str(self.certificate), str(self.key)

    def context(self) -> ssl.SSLContext:
        """Return what a link to a scheduler is made with."""
        context = ssl.create_default_context(cafile=self.ca)
        context.check_hostname = False  # whoever has a certificate of this authority is one of ours, wherever it runs
        context.load_cert_chain(self.certificate, self.key)
        return context


def check_installed() -> None:
    """Check that Dask is there, without importing it.

    Raises:
        UsageError: it is not.
    """
    if find_spec("distributed") is None or find_spec("cryptography") is None:
        raise UsageError("steps on a cluster need Dask, which is not installed: install vibe-orchestrator[cluster]")


def parse_address(text: str, *, lowest_port: int = 1) -> ClusterAddress:
    """Read an address; a port of 0 is any that is free.

    Raises:
        UsageError: it is none, or one off this machine without TLS.
    """
    if own := _LOCAL.fullmatch(text):
        if int(own[1]) > MOST_LOCAL:
            raise UsageError(f"{text}: at most {MOST_LOCAL} workers run on this machine: name fewer, or other machines")
        return ClusterAddress(text=text, workers=int(own[1]), slots=int(own[2] or 0))
    link = _LINK.fullmatch(text)
    if link is None or not lowest_port <= int(link[3]) <= 65_535:
        raise UsageError(f"{text!r} is no address of a cluster: write tls://HOST:PORT, tcp://127.0.0.1:PORT or local:N")
    host = link[2].strip("[]")
    if link[1] == "tcp" and not is_loopback(host):
        raise UsageError(
            f"{text}: whoever reaches a scheduler runs programs on its workers, so tcp:// is for this machine alone: "
            "use tls:// with the certificates of `vibe cluster certs`"
        )
    return ClusterAddress(text=text, host=host, port=int(link[3]), is_encrypted=link[1] == "tls")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host by that name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_certificates(folder: str) -> Certificates:
    """Read the certificates in a folder.

    Raises:
        UsageError: none is named, or they are not there or no certificates.
        EnvironmentFailure: one can't be read, or its time is over.
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
    """Check that steps could be done on a cluster, and reach its scheduler; blocks, 8 s at most. Starts nothing.

    Returns the certificates for it; None: it needs none.

    Raises:
        UsageError: the address or a setting is wrong, or Dask is not installed.
        EnvironmentFailure: there is no scheduler that knows us.
    """
    check_installed()
    address = parse_address(text)
    certificates = read_certificates(folder) if address.is_encrypted else None
    if address.host:
        reach(address, certificates)
    return certificates


def reach(address: ClusterAddress, certificates: Certificates | None) -> None:
    """Have a scheduler or a worker say its first word, which it says to those it knows; blocks, 8 s at most.

    Raises:
        EnvironmentFailure: there is none, or it does not know us, or we it.
    """
    try:
        link = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        if certificates is not None:
            link = certificates.context().wrap_socket(link)
        with closing(link):
            answered = bool(link.recv(1))
        problem = "" if answered else "what listens there is no scheduler that takes such a link"
    except OSError as error:
        problem = _problem(error)
    if problem:
        raise EnvironmentFailure(f"the cluster {address.text} can't be used: {problem}")


def _problem(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return f"its certificate has expired: {RENEW}"
        return f"its certificate is of another authority than our {CA_FILE}: use the certificates it was started with"
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return f"it does not take our certificate ({error.reason}): use the certificates it was started with"
    if isinstance(error, ssl.SSLError):
        return f"what listens there does not speak TLS ({error.reason}): start it with `vibe cluster scheduler`"
    if isinstance(error, TimeoutError):
        return f"no scheduler answers within {CONNECT_SECONDS:g} s: start it, or correct the address"
    return f"{error.strerror or error}: start its scheduler, or correct the address"
