"""The CAs, serving certificate and keys that replicas share in a Secret, and their rotation.

Rotation breaks no review: every API server trusts the new CA, then the replicas serve a certificate
that it signed, and the old CA is removed when no replica can still serve one of its own.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jobflow.webhook.certificates.pki import (
    CertificateError,
    Pair,
    alternative_name,
    hosts_of,
    make_authority,
    make_serving,
    pem,
    pem_key,
)

CA, CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""Keys of the Secret's data: those of cert-manager, and the CA's key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Hosts and lifetimes of certificates. Raises CertificateError for a malformed host."""

    hosts: tuple[str, ...]
    """Names and addresses of the webhook."""
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
        replica that cannot reach the API server may serve that certificate for as long."""
        return min(timedelta(hours=1), self.serving / 4)


@dataclass(frozen=True, slots=True)
class Ring:
    """The content of the Secret."""

    newest: Pair
    """The CA that signs new certificates."""
    older: tuple[x509.Certificate, ...]
    """CAs that stay trusted, newest first."""
    serving: Pair

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """All trusted CAs, newest first."""
        return (self.newest.certificate, *self.older)

    @property
    def issuer(self) -> x509.Certificate:
        """The CA of the serving certificate."""
        found = issuer_of(self.serving.certificate, self.authorities)
        assert found is not None, "a ring always has the issuer"
        return found

    @property
    def rotated(self) -> bool:
        """Whether the newest CA signed the serving certificate."""
        return self.issuer == self.newest.certificate

    def data(self) -> dict[str, str]:
        """Return it as `data` of a Secret."""
        content = {
            CA: b"".join(map(pem, self.authorities)),
            CA_KEY: pem_key(self.newest.key),
            CERTIFICATE: pem(self.serving.certificate),
            KEY: pem_key(self.serving.key),
        }
        return {name: b64encode(value).decode() for name, value in content.items()}


def read_ring(data: Mapping[str, str]) -> Ring:
    """Return the content of a Secret's `data`. Raises CertificateError."""
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
    """The ring to write to the Secret, and the reason."""

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
    ours, theirs = [_canonical(host) for host in policy.hosts], hosts_of(ring.serving.certificate)
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
    # those in the past wait for something else
    waits = [moment - now for moment in moments if moment > now]
    return min([*waits, timedelta(days=1)])


def issuer_of(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """Return the CA that signed a certificate."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host


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
