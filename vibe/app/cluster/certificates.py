"""Writes the certificates of a cluster: one authority, whose key is then discarded, and one certificate for all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from vibe.app.cluster.address import CA_FILE, CERTIFICATE_FILE, KEY_FILE, Certificates
from vibe.system.errors import EnvironmentFailure, UsageError, remedy

AUTHORITY = "vibe cluster authority"
LIFETIME = timedelta(days=730)
SKEW = timedelta(hours=1)
"""The most by which the clocks of the machines may differ."""


def write_certificates(folder: Path, lifetime: timedelta = LIFETIME) -> Certificates:
    """Write an authority's certificate, a certificate signed by it, and its key into a folder for the owner alone.

    The key is that of the second certificate. Nobody can make another one of this authority, since its key is not kept.

    Raises:
        UsageError: there are some already.
        EnvironmentFailure: the folder can't be written.
    """
    if there := [str(folder / name) for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE) if (folder / name).exists()]:
        raise UsageError(f"{there[0]} is there already: name another folder, or remove the old certificates")
    expires = datetime.now(UTC) + lifetime
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _signed(AUTHORITY, expires, authority_key, authority_key, is_authority=True)
    own = _signed("vibe cluster", expires, key, authority_key, is_authority=False)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = Certificates(
        ca=folder / CA_FILE, certificate=folder / CERTIFICATE_FILE, key=folder / KEY_FILE, expires=expires
    )
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, content in ((made.key, secret), (made.certificate, own), (made.ca, authority)):
            path.touch(mode=0o600, exist_ok=False)
            written.append(path)
            path.write_bytes(content)
    except OSError as error:
        for path in written:  # an incomplete set is useless, and would block the next attempt
            path.unlink(missing_ok=True)
        raise EnvironmentFailure(f"{folder} can't be written ({error.strerror}): {remedy(error)}") from error
    return made


def _signed(
    name: str,
    expires: datetime,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, AUTHORITY)]),
        subject_name=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=datetime.now(UTC) - SKEW,
        not_valid_after=expires,
    )
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    certificate = builder.add_extension(constraints, critical=True).sign(signer, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM)
