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
    return _make_pair("JobFlow webhook CA", None, begin=now, end=now + lifetime)


def make_serving(
    authority: Pair, hosts: Sequence[str], *, now: datetime, lifetime: timedelta
) -> Pair:
    """Return a certificate for `hosts`, which expires before its CA. Raises CertificateError."""
    if not hosts:
        raise CertificateError("a serving certificate needs at least one host name or address")
    names = x509.SubjectAlternativeName([alternative_name(host) for host in hosts])
    # clients check the CA's dates too
    end = min(now + lifetime, authority.expires - timedelta(seconds=1))
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return _make_pair(hosts[0], authority, usage, names, begin=now, end=end)


def _make_pair(
    name: str,
    issuer: Pair | None,
    *extensions: x509.ExtensionType,
    begin: datetime,
    end: datetime,
) -> Pair:
    """Return a new certificate that `issuer` signs; a CA that signs itself if that is None."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:MAX_COMMON_NAME])])
    is_ca, issuer_key = issuer is None, key if issuer is None else issuer.key
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    constraints = x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None)
    # OpenSSL 3 clients insist on both key identifiers
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(authority_id, critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return Pair(builder.sign(issuer_key, hashes.SHA256()), key)


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


def alternative_name(host: str) -> x509.GeneralName:
    """Return a host as a certificate names it. Raises CertificateError for a malformed one."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise CertificateError(f"{host!r} is neither a host name nor an address")
    return x509.DNSName(host)
