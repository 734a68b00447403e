"""The certificate that the server presents, which can change without dropping connections, and a
certificate in files that another program writes, reloaded when they change.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, Protocol, TypeVar

import structlog
from cryptography import x509

from jobflow.webhook.certificates.pki import CertificateError, make_pki

log = structlog.get_logger(__name__)

Now = Callable[[], datetime]
NO_CERTIFICATE = int(ssl.AlertDescription.ALERT_DESCRIPTION_INTERNAL_ERROR)


def utc_now() -> datetime:
    return datetime.now(UTC)


class CertificateSource(Protocol):
    """Keeps the certificate of a Live up to date."""

    async def run(self) -> None:
        """Run until cancelled."""

    def waiting_for(self) -> list[str]:
        """Return why reviews cannot be answered, a clause each."""


class Live:
    """A server's TLS context, `tls`, which presents to new connections the pair that was put last.
    Each pair has a context of its own, because an unusable one would spoil a context in use."""

    def __init__(self, *, now: Now = utc_now) -> None:

        def choose(connection: Any, name: str | None, context: ssl.SSLContext) -> int | None:
            if self._context is None:
                return NO_CERTIFICATE
            connection.context = self._context
            return None

        self.tls = _server_context()
        self.tls.sni_callback = choose  # also called for a client that connects by address
        self.certificate: x509.Certificate | None = None
        self.swaps = 0
        self.refused = 0
        self._context: ssl.SSLContext | None = None
        self._clients: str | None = None
        self._refusal = ""
        self._pair: tuple[bytes, bytes, str, str] | None = None
        self._now = now

    @property
    def expires(self) -> datetime | None:
        return None if self.certificate is None else self.certificate.not_valid_after_utc

    def put(self, chain: bytes, key: bytes, origin: str, key_origin: str) -> None:
        """Present this PEM chain, the server's own certificate first, from now on. The origins are
        for messages. Raises CertificateError; the certificate in use stays."""
        try:
            try:
                certificate = x509.load_pem_x509_certificates(chain)[0]
            except ValueError as error:
                raise CertificateError(f"{origin} is not a PEM certificate") from error
            begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if end <= self._now():
                raise CertificateError(f"{origin} expired at {end}")
            if begin > self._now():
                raise CertificateError(f"{origin} is not valid before {begin}")
            context = _load(chain, key, origin, key_origin)
        except CertificateError as error:
            self.refuse(str(error))
            raise
        if self._context is not None:
            self.swaps += 1
        # a new certificate keeps the CAs that clients need
        if self._clients is not None:
            _require_client_certificate(context, self._clients)
        self._context, self.certificate, self._refusal = context, certificate, ""
        self._pair = (chain, key, origin, key_origin)
        log.info("certificate in use", origin=origin, expires=str(self.expires))

    def trust_clients(self, authorities: bytes, origin: str) -> None:
        """Accept new connections only from clients with a certificate of one of these CAs (PEM).
        Raises CertificateError; the CAs in use stay."""
        try:
            clients = authorities.decode()
            _require_client_certificate(_server_context(), clients)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{origin} is not a PEM certificate of a CA") from error
        self._clients = clients
        self.tls.verify_mode = ssl.CERT_REQUIRED
        # the context in use is never changed: a broken one would refuse everybody
        if self._pair is not None:
            context = _load(*self._pair)
            _require_client_certificate(context, clients)
            self._context = context
        log.info("clients need a certificate", origin=origin)

    def refuse(self, reason: str) -> None:
        """Count and log that a certificate cannot be used, once for each reason."""
        if reason != self._refusal:
            self._refusal = reason
            self.refused += 1
            log.error("certificate refused", error=reason, in_use_until=str(self.expires or "none"))

    def waiting_for(self) -> list[str]:
        """Return why reviews cannot be answered, a clause each."""
        if self.certificate is None or self.expires is None:
            return [f"a certificate: {self._refusal or 'none exists yet'}"]
        if self.expires <= self._now():
            why = f" ({self._refusal})" if self._refusal else ""
            return [f"a certificate that is valid: the one in use expired at {self.expires}{why}"]
        return []


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _require_client_certificate(context: ssl.SSLContext, authorities: str) -> None:
    """Set both in each context: OpenSSL takes the mode from the server's first context, and the CAs
    from the context that `Live` chooses."""
    context.load_verify_locations(cadata=authorities)
    context.verify_mode = ssl.CERT_REQUIRED


def _load(chain: bytes, key: bytes, origin: str, key_origin: str) -> ssl.SSLContext:
    with TemporaryDirectory(prefix="jobflow-tls-") as folder:
        chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, content in ((chain_file, chain), (key_file, key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        return load_pair(chain_file, key_file, origin, key_origin)


def load_pair(chain: Path, key: Path, origin: str, key_origin: str) -> ssl.SSLContext:
    """Return a context (TLS 1.2 or newer) with the pair in these files. Raises CertificateError."""
    context = _server_context()
    try:
        # without this, OpenSSL prompts on the terminal for the password of an encrypted key
        context.load_cert_chain(chain, key, password=lambda: b"")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError(f"{key_origin} is not the key of {origin}") from error
        raise CertificateError(
            f"{origin} and {key_origin} are not a PEM certificate and its unencrypted key: "
            f"{error.reason or error}"
        ) from error
    return context


_Content = TypeVar("_Content")

LOOK_SECONDS = 5.0
"""Seconds between two reads. A kubelet takes a minute to update a mounted Secret."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a new context with this pair. Raises CertificateError."""
        self.read()
        return load_pair(self.certificate, self.key, str(self.certificate), str(self.key))

    def read(self) -> tuple[bytes, bytes]:
        """Return certificate and key once two reads agree, because they are replaced in turn."""
        before = None
        for _ in range(5):
            now = _content(self.certificate), _content(self.key)
            if now == before:
                break
            before = now
        assert before is not None
        return before


def _content(path: Path) -> bytes:
    if not path.is_file() or not os.access(path, os.R_OK):
        raise CertificateError(f"{path}: no such file, or not allowed to read it")
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error


class Watched(Generic[_Content]):
    """Keeps `live` up to date with files. Unusable content raises only in the constructor."""

    def __init__(
        self, live: Live, read: Callable[[], _Content], use: Callable[[_Content], None]
    ) -> None:
        self._live = live
        self._read = read
        self._use = use
        self._used = read()
        use(self._used)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        try:
            content = self._read()
            # nearly every look finds nothing new
            if content != self._used:
                self._use(content)
                self._used = content
        except CertificateError as error:
            self._live.refuse(str(error))

    def waiting_for(self) -> list[str]:
        return self._live.waiting_for()


def watch_certificate(files: CertificateFiles, live: Live) -> Watched[tuple[bytes, bytes]]:
    names = str(files.certificate), str(files.key)
    return Watched(live, files.read, lambda pair: live.put(*pair, *names))


def watch_client_ca(path: Path, live: Live) -> Watched[bytes]:
    return Watched(live, lambda: _content(path), lambda ca: live.trust_clients(ca, str(path)))


@dataclass(frozen=True, slots=True)
class PkiFiles:
    ca_certificate: Path
    ca_key: Path
    serving: CertificateFiles


def write_development_pki(directory: Path, hosts: Sequence[str]) -> PkiFiles:
    """Write a new `make_pki` as ca.crt, ca.key, tls.crt and tls.key to `directory`. The files
    belong to the owner of the directory, or of the nearest one above that exists; only that user
    can read them. Raises CertificateError and OSError."""
    pki = make_pki(hosts)
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    # root may make the files for the user of a mounted folder
    above = missing[-1].parent if missing else directory
    owner = (above.stat().st_uid, above.stat().st_gid)
    if not missing and os.geteuid() not in (0, owner[0]):
        raise CertificateError(
            f"the folder belongs to the user with the id {owner[0]}, who could not read the files: "
            "run the command as that user, or name a folder of your own"
        )
    for each in reversed(missing):
        each.mkdir(0o700)
        _give(each, owner)
    directory.mkdir(exist_ok=True)  # an error if it is a file
    serving = CertificateFiles(
        _write(directory / "tls.crt", pki.certificate, owner),
        _write(directory / "tls.key", pki.key, owner),
    )
    return PkiFiles(
        _write(directory / "ca.crt", pki.ca_certificate, owner),
        _write(directory / "ca.key", pki.ca_key, owner),
        serving,
    )


def _write(path: Path, content: bytes, owner: tuple[int, int]) -> Path:
    """Write a file atomically that only its owner can read."""
    part = path.with_name(path.name + ".part")
    # O_EXCL refuses a part that an earlier run has left
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        _give(file.fileno(), owner)
        file.write(content)
    return part.replace(path)


def _give(target: Path | int, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:  # others make files of their own
        os.chown(target, *owner)
