"""The cluster's own certificate authority.

One authority signs servers and clients alike; a client's common name is its user and its organizations are its groups.
Keys are elliptic (P-256): dozens are made in the time of one RSA key.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 30
"""Longer than the life of any test cluster."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into a folder; an existing one is kept, so that a restart changes no identity."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate = directory / "ca.crt"
        self._key_file = directory / "ca.key"
        directory.mkdir(parents=True, exist_ok=True)
        if not self.certificate.exists():
            self._create()
        key = serialization.load_pem_private_key(self._key_file.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._issuer = x509.load_pem_x509_certificate(self.certificate.read_bytes()).subject

    def issue(self, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Credential:
        """A certificate for `user`; with `hosts` it serves under these names and addresses too."""
        name = user.replace(":", "-")
        made = Credential(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        if made.certificate.exists():
            return made
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        builder = _builder(subject, self._issuer, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(h) for h in hosts]), False)
        _write_key(made.key, key)
        made.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        return made

    def key_pair(self, name: str) -> tuple[Path, Path]:
        """A private key and its public half, for signing service-account tokens."""
        private, public = self.directory / f"{name}.key", self.directory / f"{name}.pub"
        if not public.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            _write_key(private, key)
            encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            public.write_bytes(key.public_key().public_bytes(encoding, form))
        return private, public

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forebay-test-cluster")])
        builder = _builder(subject, subject, key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        _write_key(self._key_file, key)
        self.certificate.write_bytes(_pem(builder.sign(key, hashes.SHA256())))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    # Valid an hour back: a restored machine's clock may step.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
