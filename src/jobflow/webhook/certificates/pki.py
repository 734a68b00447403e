"""Creation of certificate authorities and serving certificates."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
"""Lifetimes in a development PKI, which is not renewed."""
CLOCK_SKEW = timedelta(hours=1)
"""Certificates begin this much earlier, for clients whose clock is behind."""
MAX_COMMON_NAME = 64
_LABEL = "[A-Za-z0-9_](?:[-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
"""A DNS name, whose first label may be a wildcard."""


class CertificateError(ValueError):
    """A certificate that cannot be used. The text says which and why in one sentence."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def issued(self) -> datetime:
        """When the certificate was made."""
        return self.certificate.not_valid_before_utc + CLOCK_SKEW

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return self.certificate.not_valid_after_utc

    @property
    def due(self) -> datetime:
        """When to replace the certificate: after two thirds of its lifetime."""
        return self.issued + (self.expires - self.issued) * 2 / 3


@dataclass(frozen=True, slots=True)
class Pki:
    """A CA and a serving certificate that it signed; all PEM."""

    ca_certificate: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes


def make_pki(hosts: Sequence[str], *, now: datetime | None = None) -> Pki:
    """Return a new CA and a certificate for `hosts`, names and addresses. Raises
    CertificateError."""
    now = now or datetime.now(UTC)
    authority = make_authority(now=now, lifetime=CA_LIFETIME)
    serving = make_serving(authority, hosts, now=now, lifetime=SERVING_LIFETIME)
    return Pki(
        ca_certificate=pem(authority.certificate),
        ca_key=pem_key(authority.key),
        certificate=pem(serving.certificate),
        key=pem_key(serving.key),
    )


def make_authority(*, now: datetime, lifetime: timedelta) -> Pair:
    """Return a new self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("JobFlow webhook CA")
    certificate = (
        _builder(name, name, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(_authority_id(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate, key)


def make_serving(
    authority: Pair, hosts: Sequence[str], *, now: datetime, lifetime: timedelta
) -> Pair:
    """Return a certificate for `hosts`, which expires before its CA. Raises CertificateError."""
    if not hosts:
        raise CertificateError("a serving certificate needs at least one host name or address")
    names = x509.SubjectAlternativeName([alternative_name(host) for host in hosts])
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, authority.expires - timedelta(seconds=1))
    certificate = (
        _builder(_name(hosts[0]), authority.certificate.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(_authority_id(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(certificate, key)


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM (PKCS 8), not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
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


def alternative_name(host: str) -> x509.GeneralName:
    """Return a host as a certificate names it. Raises CertificateError for a malformed one."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise CertificateError(f"{host!r} is neither a host name nor an address")
    return x509.DNSName(host)
