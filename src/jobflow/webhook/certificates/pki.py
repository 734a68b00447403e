"""Creation of certificates, and the rotation of those that replicas share in a Secret.

Rotation breaks no review: every API server trusts the new CA, then the replicas serve a certificate
that it signed, and the old CA is removed when no replica can still serve one of its own.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
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
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def issued(self) -> datetime:
        return self.certificate.not_valid_before_utc + CLOCK_SKEW

    @property
    def expires(self) -> datetime:
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
    name: str, issuer: Pair | None, *extensions: x509.ExtensionType, begin: datetime, end: datetime
) -> Pair:
    """Return a new certificate that `issuer` signs; a CA that signs itself if that is None."""
    # all clients of Kubernetes know it, and it is made in a millisecond
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
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM (PKCS 8), not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise CertificateError(f"{host!r} is neither a host name nor an address")
    return x509.DNSName(host)


CA, CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""Keys of the Secret's data: those of cert-manager, and the CA's key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Hosts and lifetimes of certificates. Raises CertificateError for a malformed host."""

    hosts: tuple[str, ...]
    serving: timedelta = timedelta(days=90)
    authority: timedelta = timedelta(days=5 * 365)

    def __post_init__(self) -> None:
        for host in self.hosts:
            alternative_name(host)

    @property
    def settle(self) -> timedelta:
        """Time from the write of a caBundle until every API server uses it."""
        return min(timedelta(seconds=10), self.serving / 20)

    @property
    def overlap(self) -> timedelta:
        """Time for which an older CA stays trusted after its last certificate was replaced. A
        replica that cannot reach the API server may serve that one for as long."""
        return min(timedelta(hours=1), self.serving / 4)


@dataclass(frozen=True, slots=True)
class Ring:
    """The content of the Secret."""

    newest: Pair
    older: tuple[x509.Certificate, ...]
    """CAs that stay trusted, newest first."""
    serving: Pair

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        return (self.newest.certificate, *self.older)

    @property
    def issuer(self) -> x509.Certificate:
        found = issuer_of(self.serving.certificate, self.authorities)
        assert found is not None, "a ring always has the issuer"
        return found

    @property
    def rotated(self) -> bool:
        return self.issuer == self.newest.certificate

    def data(self) -> dict[str, str]:
        content = {
            CA: b"".join(map(pem, self.authorities)),
            CA_KEY: pem_key(self.newest.key),
            CERTIFICATE: pem(self.serving.certificate),
            KEY: pem_key(self.serving.key),
        }
        return {name: b64encode(value).decode() for name, value in content.items()}


def read_ring(data: Mapping[str, str]) -> Ring:
    authorities, chain = _decoded(data, CA), _decoded(data, CERTIFICATE)
    try:
        newest, *older = x509.load_pem_x509_certificates(authorities)
        (certificate, *_) = x509.load_pem_x509_certificates(chain)
    except ValueError as error:
        raise CertificateError(f"{CA} or {CERTIFICATE} is not a PEM certificate") from error
    ring = Ring(
        newest=_pair(newest, data, CA, CA_KEY),
        older=tuple(older),
        serving=_pair(certificate, data, CERTIFICATE, KEY),
    )
    # API servers that trust only these CAs would refuse it
    if issuer_of(certificate, ring.authorities) is None:
        raise CertificateError(f"{CERTIFICATE} is not signed by a CA in {CA}")
    return ring


def new_ring(policy: Policy, *, now: datetime, held: Ring | None = None) -> Ring:
    """Return a ring with a new CA. A valid certificate that was `held` until now stays in use."""
    newest = make_authority(now=now, lifetime=policy.authority)
    if held is not None and held.serving.expires > now:
        return Ring(newest, _valid(held.authorities, now), held.serving)
    serving = make_serving(newest, policy.hosts, now=now, lifetime=policy.serving)
    return Ring(newest, (), serving)


@dataclass(frozen=True, slots=True)
class RingChange:
    ring: Ring
    reason: str


def due_change(ring: Ring, policy: Policy, *, now: datetime, trusted: bool) -> RingChange | None:
    """Return the next change, or None. `trusted`: every API server trusts the newest CA."""
    if ring.serving.expires <= now and not ring.rotated:
        trusted = True  # there is no valid certificate left to keep in use
    # one rotation at a time
    if ring.newest.due <= now and (ring.rotated or ring.newest.expires <= now):
        newest = make_authority(now=now, lifetime=policy.authority)
        if ring.serving.expires <= now:
            serving = make_serving(newest, policy.hosts, now=now, lifetime=policy.serving)
            return RingChange(Ring(newest, (), serving), "CA and certificate have expired")
        # replicas serve a certificate of theirs until all trust the new CA
        older = _valid(ring.authorities, now)
        return RingChange(
            Ring(newest, older, ring.serving), "the CA is past two thirds of its lifetime"
        )
    ours = [str(alternative_name(host).value) for host in policy.hosts]
    theirs = hosts_of(ring.serving.certificate)
    reason = None
    if not ring.rotated:
        reason = "there is a newer CA" if trusted else None
    elif ring.serving.due <= now:
        reason = "the certificate is past two thirds of its lifetime"
    elif missing := set(ours) - set(theirs):
        reason = f"the certificate is not for {', '.join(sorted(missing))}"
    if reason is not None:
        # replicas with other hosts would replace each other's certificates if theirs were left out
        hosts = ours + theirs if now < ring.serving.due else ours
        serving = make_serving(
            ring.newest, list(dict.fromkeys(hosts)), now=now, lifetime=policy.serving
        )
        return RingChange(replace(ring, serving=serving), reason)
    if ring.older and is_older_unused(ring, policy, now=now):
        return RingChange(replace(ring, older=()), "no replica serves a certificate of an older CA")
    return None


def is_older_unused(ring: Ring, policy: Policy, *, now: datetime) -> bool:
    """Return whether every replica must have stopped serving certificates of older CAs."""
    return ring.rotated and ring.serving.issued + policy.overlap <= now


def time_to_next_change(ring: Ring, policy: Policy, *, now: datetime) -> timedelta:
    """Return the time until `due_change` may return another value, at most a day."""
    moments = [ring.newest.due, ring.serving.due, ring.serving.issued + policy.overlap]
    # a change whose time has passed waits for another event
    waits = [moment - now for moment in moments if moment > now]
    return min([*waits, timedelta(days=1)])


def issuer_of(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None


def _valid(certificates: Iterable[x509.Certificate], now: datetime) -> tuple[x509.Certificate, ...]:
    return tuple(each for each in certificates if each.not_valid_after_utc > now)


def _decoded(data: Mapping[str, str], name: str) -> bytes:
    if name not in data:
        raise CertificateError(f"{name} is missing")
    try:
        return b64decode(data[name])
    except ValueError as error:
        raise CertificateError(f"{name} is not base64") from error


def _pair(certificate: x509.Certificate, data: Mapping[str, str], name: str, key_name: str) -> Pair:
    text = _decoded(data, key_name)
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{key_name} is not an unencrypted PEM key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{key_name} is not an EC key")
    if key.public_key() != certificate.public_key():
        raise CertificateError(f"{key_name} is not the key of the first certificate in {name}")
    return Pair(certificate, key)
