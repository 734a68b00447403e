"""What the replicas share in one Secret: CAs, a serving certificate, keys; and what comes next.

Pure: the clock is an argument, nothing is read or written. The order that never breaks a review:
a new CA is trusted by everyone first, then a certificate under it is served, and only when nobody
can be serving an older one any more its CA goes.
"""

from __future__ import annotations

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
"""Keys of the Secret's data, as cert-manager's have them, and the CA's own key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Whom certificates are for and how long things last. Raises CertificateError for a host that
    is none."""

    hosts: tuple[str, ...]
    """Names and addresses that the serving certificate is for."""
    serving: timedelta = timedelta(days=90)
    authority: timedelta = timedelta(days=5 * 365)

    def __post_init__(self) -> None:
        for host in self.hosts:
            alternative_name(host)

    @property
    def settle(self) -> timedelta:
        """From a caBundle's being written until every API server has heard of it."""
        return min(timedelta(seconds=10), self.serving / 20)

    @property
    def overlap(self) -> timedelta:
        """How long an older CA stays trusted after its last certificate was replaced: a replica
        that cannot reach the API server may serve that one for so long."""
        return min(timedelta(hours=1), self.serving / 4)


@dataclass(frozen=True, slots=True)
class Ring:
    """The content of the Secret."""

    newest: Pair
    """The CA that signs."""
    older: tuple[x509.Certificate, ...]
    """CAs that are still to be trusted, newest first."""
    serving: Pair

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """All CAs to be trusted, newest first."""
        return (self.newest.certificate, *self.older)

    @property
    def issuer(self) -> x509.Certificate:
        """The CA of the serving certificate."""
        found = issuer_of(self.serving.certificate, self.authorities)
        assert found is not None, "a ring is made and read with the issuer in it"
        return found

    @property
    def rotated(self) -> bool:
        """Whether the newest CA is that of the serving certificate."""
        return self.issuer == self.newest.certificate

    def data(self) -> dict[str, str]:
        """As `data` of a Secret."""
        content = {
            CA: b"".join(map(pem, self.authorities)),
            CA_KEY: pem_key(self.newest.key),
            CERTIFICATE: pem(self.serving.certificate),
            KEY: pem_key(self.serving.key),
        }
        return {name: b64encode(value).decode() for name, value in content.items()}


def read_ring(data: Mapping[str, str]) -> Ring:
    """What a Secret's `data` holds. Raises CertificateError, which says what does not fit."""
    authorities, chain = _decoded(data, CA), _decoded(data, CERTIFICATE)
    try:
        newest, *older = x509.load_pem_x509_certificates(authorities)
        (certificate, *_) = x509.load_pem_x509_certificates(chain)
    except ValueError as error:
        raise CertificateError(f"{CA} or {CERTIFICATE} is no PEM certificate") from error
    ring = Ring(
        newest=_pair(newest, data, CA, CA_KEY),
        older=tuple(older),
        serving=_pair(certificate, data, CERTIFICATE, KEY),
    )
    if issuer_of(certificate, ring.authorities) is None:
        raise CertificateError(f"{CERTIFICATE} is signed by none of the CAs in {CA}")
    return ring


def new_ring(policy: Policy, *, now: datetime, held: Ring | None = None) -> Ring:
    """A ring with a new CA. One that was `held` until now goes on being served and trusted."""
    newest = make_authority(now=now, lifetime=policy.authority)
    if held is not None and held.serving.expires > now:
        return Ring(newest, _valid(held.authorities, now), held.serving)
    serving = make_serving(newest, policy.hosts, now=now, lifetime=policy.serving)
    return Ring(newest, (), serving)


@dataclass(frozen=True, slots=True)
class RingChange:
    """What to write to the Secret, and why."""

    ring: Ring
    reason: str


def change(ring: Ring, policy: Policy, *, now: datetime, trusted: bool) -> RingChange | None:
    """The next change, None where nothing is due. `trusted`: everyone trusts the newest CA now."""
    if ring.serving.expires <= now and not ring.rotated:
        trusted = True  # there is nothing left to be careful of
    if ring.newest.due <= now and (ring.rotated or ring.newest.expires <= now):
        newest = make_authority(now=now, lifetime=policy.authority)
        if ring.serving.expires <= now:
            serving = make_serving(newest, policy.hosts, now=now, lifetime=policy.serving)
            return RingChange(Ring(newest, (), serving), "everything had ended")
        older = _valid(ring.authorities, now)
        return RingChange(Ring(newest, older, ring.serving), "the CA is at two thirds of its life")
    if (reason := _reissue(ring, policy, now)) and (trusted or ring.rotated):
        hosts = _hosts(ring, policy, now)
        serving = make_serving(ring.newest, hosts, now=now, lifetime=policy.serving)
        return RingChange(replace(ring, serving=serving), reason)
    if ring.older and outlived(ring, policy, now=now):
        return RingChange(replace(ring, older=()), "nobody serves under an older CA any more")
    return None


def outlived(ring: Ring, policy: Policy, *, now: datetime) -> bool:
    """Whether nobody can be serving under any but the newest CA any more."""
    return ring.rotated and ring.serving.issued + policy.overlap <= now


def next_change(ring: Ring, policy: Policy, *, now: datetime) -> timedelta:
    """How long until `change` may say something else than now, at most a day."""
    moments = [ring.newest.due, ring.serving.due, ring.serving.issued + policy.overlap]
    waits = [moment - now for moment in moments if moment > now]
    return min([*waits, timedelta(days=1)])


def issuer_of(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """The CA that signed a certificate."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None


def _reissue(ring: Ring, policy: Policy, now: datetime) -> str:
    """Why there has to be another serving certificate; empty where there has not."""
    if not ring.rotated:
        return "there is a newer CA"
    if ring.serving.due <= now:
        return "the certificate is at two thirds of its life"
    if missing := set(map(_canonical, policy.hosts)) - set(hosts_of(ring.serving.certificate)):
        return f"the certificate is not for {', '.join(sorted(missing))}"
    return ""


def _hosts(ring: Ring, policy: Policy, now: datetime) -> list[str]:
    """Ours and, until they are due for renewal, those that a replica of another version asked
    for: else the two would take turns."""
    ours = [_canonical(host) for host in policy.hosts]
    theirs = hosts_of(ring.serving.certificate) if now < ring.serving.due else []
    return list(dict.fromkeys([*ours, *theirs]))


def _canonical(host: str) -> str:
    """An address in the one way it is written in a certificate."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _valid(certificates: Iterable[x509.Certificate], now: datetime) -> tuple[x509.Certificate, ...]:
    return tuple(each for each in certificates if each.not_valid_after_utc > now)


def _decoded(data: Mapping[str, str], name: str) -> bytes:
    if name not in data:
        raise CertificateError(f"it has no {name}")
    try:
        return b64decode(data[name])
    except ValueError as error:
        raise CertificateError(f"{name} is no base64") from error


def _pair(certificate: x509.Certificate, data: Mapping[str, str], name: str, key_name: str) -> Pair:
    text = _decoded(data, key_name)
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{key_name} is no unencrypted PEM key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{key_name} is no EC key")
    if key.public_key() != certificate.public_key():
        raise CertificateError(f"{key_name} is not the key of the first certificate in {name}")
    return Pair(certificate, key)
