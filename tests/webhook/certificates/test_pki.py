"""Certificates that strict clients accept, and files that cannot be served."""

import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from jobflow.webhook.certificates.live import (
    CertificateFiles,
    Live,
    PkiFiles,
    write_development_pki,
)
from jobflow.webhook.certificates.pki import CertificateError, make_pki
from support.time.certificate_rings import handshake

HOSTS = ["jobflow.jobflow-system.svc", "127.0.0.1", "::1"]


def is_trusted(pki: PkiFiles, host: str, authority: PkiFiles | None = None) -> bool:
    """Return whether a strict client of an authority gets the certificate. Raises without trust."""
    live = Live()
    live.put(*pki.serving.read(), "tls.crt", "tls.key")
    ca = x509.load_pem_x509_certificate((authority or pki).ca_certificate.read_bytes())
    served = x509.load_pem_x509_certificate(pki.serving.certificate.read_bytes())
    return handshake(live, ca, host) == served.public_bytes(serialization.Encoding.DER)


@pytest.fixture
def pki(tmp_path: Path) -> PkiFiles:
    return write_development_pki(tmp_path / "certs", HOSTS)


@pytest.mark.parametrize("host", HOSTS)
def test_strict_clients_trust_every_host(pki: PkiFiles, host: str) -> None:
    assert is_trusted(pki, host)


def test_no_client_trusts_another_host_or_another_ca(pki: PkiFiles, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        is_trusted(pki, "other.example")
    stranger = write_development_pki(tmp_path / "other", HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        is_trusted(pki, HOSTS[0], stranger)


def test_certificates_have_the_required_extensions() -> None:
    now = datetime(2026, 8, 1, 12, tzinfo=UTC)
    pki = make_pki(HOSTS, now=now)
    ca = x509.load_pem_x509_certificate(pki.ca_certificate)
    leaf = x509.load_pem_x509_certificate(pki.certificate)
    leaf.verify_directly_issued_by(ca)
    ca.verify_directly_issued_by(ca)
    for certificate, is_ca in ((ca, True), (leaf, False)):
        extensions = certificate.extensions
        assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
        basic = extensions.get_extension_for_class(x509.BasicConstraints)
        usage = extensions.get_extension_for_class(x509.KeyUsage)
        assert (basic.critical, basic.value.ca) == (True, is_ca)
        assert (usage.critical, usage.value.key_cert_sign) == (True, is_ca)
        assert certificate.not_valid_before_utc == now - timedelta(hours=1)
    key_id = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    issuer = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issuer.key_identifier == key_id
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == HOSTS[:1]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address(host) for host in HOSTS[1:]]
    purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert leaf.not_valid_after_utc < ca.not_valid_after_utc


def test_only_the_owner_can_read_the_files(pki: PkiFiles) -> None:
    modes = {path.name: path.stat().st_mode & 0o077 for path in pki.ca_key.parent.iterdir()}
    assert modes == {"ca.crt": 0, "ca.key": 0, "tls.crt": 0, "tls.key": 0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
class TestOwner:
    """Files that root, or another user, writes to a folder of a user."""

    USER, STRANGER = 12345, 12346

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "certs"
        folder.mkdir()
        os.chown(folder, self.USER, self.USER)
        for above in (tmp_path, *list(tmp_path.parents)[:3]):
            above.chmod(0o755)
        return folder

    def as_user(self, user: int, folder: Path) -> int:
        """Return the exit code of a process of a user that writes to the folder."""
        pid = os.fork()
        if pid == 0:
            code = 0
            try:
                os.setuid(user)
                write_development_pki(folder, HOSTS)
            except CertificateError:
                code = 2
            except BaseException:
                code = 3
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_what_root_writes_belongs_to_the_owner_of_the_folder(self, folder: Path) -> None:
        write_development_pki(folder / "api-server", HOSTS)
        assert {path.stat().st_uid for path in folder.rglob("*")} == {self.USER}
        assert self.as_user(self.USER, folder / "api-server") == 0

    def test_another_user_is_refused_before_a_file_is_written(self, folder: Path) -> None:
        folder.chmod(0o777)
        assert self.as_user(self.STRANGER, folder) == 2
        assert not [*folder.iterdir()]


def test_a_second_run_replaces_the_first(pki: PkiFiles) -> None:
    before = pki.ca_certificate.read_bytes()
    write_development_pki(pki.ca_certificate.parent, HOSTS)
    assert pki.ca_certificate.read_bytes() != before
    assert is_trusted(pki, HOSTS[0])


def test_a_long_host_name_is_accepted(tmp_path: Path) -> None:
    host = ".".join(["jobflow"] * 12)
    assert is_trusted(write_development_pki(tmp_path, [host]), host)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [([], "at least one")]
    + [
        ([host], "neither a host name nor an address")
        for host in ("ünï.example", "bad host!", "", ".", "a..b", "-a", "a.*.b", "a" * 64, "a:443")
    ],
)
def test_malformed_hosts_are_refused(hosts: list[str], text: str) -> None:
    with pytest.raises(CertificateError, match=text):
        make_pki(hosts)


class TestFilesThatCannotBeServed:
    def message_of(self, files: CertificateFiles) -> str:
        with pytest.raises(CertificateError) as raised:
            files.context()
        assert "\n" not in str(raised.value)
        return str(raised.value)

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
        assert self.message_of(files).startswith(f"{tmp_path}/tls.crt: no such file")

    def test_a_folder_is_an_error(self, pki: PkiFiles, tmp_path: Path) -> None:
        text = self.message_of(CertificateFiles(tmp_path, pki.serving.key))
        assert text.startswith(f"{tmp_path}: no such file")

    def test_a_file_without_pem_is_an_error(self, pki: PkiFiles, tmp_path: Path) -> None:
        empty = tmp_path / "empty.crt"
        empty.write_text("nothing\n")
        assert "not a PEM certificate" in self.message_of(CertificateFiles(empty, pki.serving.key))

    def test_an_encrypted_key_does_not_prompt(self, pki: PkiFiles, tmp_path: Path) -> None:
        key = serialization.load_pem_private_key(pki.serving.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        locked = tmp_path / "locked.key"
        locked.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"secret"),
            )
        )
        files = CertificateFiles(pki.serving.certificate, locked)
        assert "unencrypted key" in self.message_of(files)
