"""The content of the certificates' Secret: malformed content and due changes."""

from base64 import b64encode
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from jobflow.webhook.certificates.pki import (
    CertificateError,
    Ring,
    due_change,
    hosts_of,
    make_authority,
    new_ring,
    read_ring,
)
from support.time.certificate_rings import BEGIN, POLICY

RING = new_ring(POLICY, now=BEGIN)


def rsa_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return b64encode(text).decode()


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_a_missing_part_is_named(name: str) -> None:
    data = RING.data()
    assert read_ring(data).data() == data
    del data[name]
    with pytest.raises(CertificateError, match=f"^{name} is missing$"):
        read_ring(data)


def test_malformed_base64_is_named() -> None:
    with pytest.raises(CertificateError, match=r"^ca\.key is not base64$"):
        read_ring(RING.data() | {"ca.key": "é"})


def test_a_key_of_another_type_is_an_error() -> None:
    with pytest.raises(CertificateError, match=r"^tls\.key is not an EC key$"):
        read_ring(RING.data() | {"tls.key": rsa_key()})


def test_a_ca_has_no_hosts() -> None:
    assert hosts_of(RING.newest.certificate) == []
    assert hosts_of(RING.serving.certificate) == ["localhost", "127.0.0.1"]


def test_an_expired_certificate_is_replaced_before_the_new_ca_is_trusted() -> None:
    newer = make_authority(now=BEGIN, lifetime=POLICY.authority)
    ring = Ring(newer, (RING.newest.certificate,), RING.serving)
    end = RING.serving.expires
    assert due_change(ring, POLICY, now=end - timedelta(seconds=1), trusted=False) is None
    due = due_change(ring, POLICY, now=end, trusted=False)
    assert due is not None and due.reason == "there is a newer CA"
    assert due.ring.issuer == newer.certificate
