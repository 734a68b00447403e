"""The webhook's TLS: makes a CA and a serving certificate, and loads them for the server.

Only makes and loads; nothing here serves, and no private key is ever logged.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3650
SERVING_DAYS = 365
CLOCK_SKEW = timedelta(hours=1)
"""How far back a certificate begins, for clients whose clock is behind."""
MAX_COMMON_NAME = 64


class CertificateError(ValueError):
    """Certificate files that cannot be served. The text is one sentence with the file."""


class CertificateSource(Protocol):
    """Where the server's certificate comes from."""

    def context(self) -> ssl.SSLContext:
        """What to serve with now. Raises CertificateError where there is nothing fit."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate (with its chain) and its key, as PEM files."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """A new context with this pair, TLS 1.2 or newer. A new one each time, for a pair that
        does not match would poison one that is in use."""
        for path in (self.certificate, self.key):
            if not path.is_file() or not os.access(path, os.R_OK):
                raise CertificateError(f"{path}: no such file, or not allowed to read it")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # a key that asks for a password gets none, instead of a prompt on the terminal
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise CertificateError(
                    f"{self.key} is not the key of {self.certificate}"
                ) from error
            raise CertificateError(
                f"{self.certificate} and {self.key} are no PEM certificate and unencrypted key: "
                f"{error.reason or error}"
            ) from error
        return context


@dataclass(frozen=True, slots=True)
class Pki:
    """A CA and a serving certificate that it signed; all PEM."""

    ca_certificate: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class PkiFiles:
    """Where a Pki was written."""

    ca_certificate: Path
    ca_key: Path
    serving: CertificateFiles


def make_pki(hosts: Sequence[str], *, now: datetime | None = None) -> Pki:
    """A new CA and a serving certificate for `hosts`, DNS names and IP addresses.

    Raises CertificateError where there is no host or one is no name.
    """
    begin = (now or datetime.now(UTC)) - CLOCK_SKEW
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _authority(ca_key, begin)
    return Pki(
        ca_certificate=_pem(ca),
        ca_key=_pem_key(ca_key),
        certificate=_pem(_serving(key, hosts, ca, ca_key, begin)),
        key=_pem_key(key),
    )


def write_development_pki(directory: Path, hosts: Sequence[str]) -> PkiFiles:
    """A new `make_pki` as ca.crt, ca.key, tls.crt and tls.key in `directory`, which is made.

    What is there already is replaced. Keys are readable by their owner alone. Raises
    CertificateError as `make_pki`, OSError where nothing can be written.
    """
    pki = make_pki(hosts)
    directory.mkdir(parents=True, exist_ok=True)
    written = {
        "ca.crt": _write(directory / "ca.crt", pki.ca_certificate),
        "ca.key": _write(directory / "ca.key", pki.ca_key, secret=True),
        "tls.crt": _write(directory / "tls.crt", pki.certificate),
        "tls.key": _write(directory / "tls.key", pki.key, secret=True),
    }
    serving = CertificateFiles(written["tls.crt"], written["tls.key"])
    return PkiFiles(written["ca.crt"], written["ca.key"], serving)


def _authority(key: ec.EllipticCurvePrivateKey, begin: datetime) -> x509.Certificate:
    name = _name("JobFlow webhook CA")
    return (
        _builder(name, name, key.public_key(), begin, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(_authority_id(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _serving(
    key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    begin: datetime,
) -> x509.Certificate:
    if not hosts:
        raise CertificateError("a serving certificate needs at least one host name or address")
    names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    return (
        _builder(_name(hosts[0]), ca.subject, key.public_key(), begin, SERVING_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(_authority_id(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begin: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _authority_id(key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:MAX_COMMON_NAME])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise CertificateError(f"{host!r} is neither a host name nor an address") from error


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes, *, secret: bool = False) -> Path:
    """A file that others never see half written, nor, where secret, at all."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with open(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644), "wb"
    ) as file:
        file.write(content)
    return part.replace(path)
