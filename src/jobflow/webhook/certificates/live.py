"""The certificate that the server presents now, changed without a connection being dropped.

It judges and holds; where certificates come from is `files`' and `shared`'s business.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import structlog
from cryptography import x509

from jobflow.webhook.certificates.pki import CertificateError

log = structlog.get_logger(__name__)

Now = Callable[[], datetime]
NO_CERTIFICATE = int(ssl.AlertDescription.ALERT_DESCRIPTION_INTERNAL_ERROR)


def utc_now() -> datetime:
    """The clock of the machine."""
    return datetime.now(UTC)


class CertificateSource(Protocol):
    """Keeps a Live fresh."""

    async def run(self) -> None:
        """Until cancelled."""

    def waiting_for(self) -> list[str]:
        """Why reviews cannot be answered, a clause each; empty where they can."""


class Live:
    """What a TLS server is given once: `tls` presents to every new connection what was put here
    last. A pair is loaded into a context of its own and only then put in its place, for one that
    does not fit would poison a context in use."""

    def __init__(self, *, now: Now = utc_now) -> None:
        self.tls = _server_context()
        self.tls.sni_callback = self._choose  # also asked where a client connects by address
        self.certificate: x509.Certificate | None = None
        self.swaps = 0
        """How often a certificate took the place of another."""
        self.refused = 0
        """How often one was not fit to be presented."""
        self._context: ssl.SSLContext | None = None
        self._clients: str | None = None
        self._refusal = ""
        self._pair: tuple[bytes, bytes, str, str] | None = None
        """The pair that is presented, as `put` got it."""
        self._now = now

    @property
    def expires(self) -> datetime | None:
        """When what is presented ends; None where there is nothing."""
        return None if self.certificate is None else self.certificate.not_valid_after_utc

    def put(self, chain: bytes, key: bytes, origin: str, key_origin: str) -> None:
        """Present this PEM chain, the server's own certificate first, from now on.

        The origins are where they come from, for the log and the error. Raises CertificateError;
        what was presented before then stays.
        """
        try:
            certificate = _first(chain, origin)
            _fits_now(certificate, self._now(), origin)
            context = _loaded(chain, key, origin, key_origin)
        except CertificateError as error:
            self.refuse(str(error))
            raise
        if self._context is not None:
            self.swaps += 1
        if self._clients is not None:
            _ask_clients(context, self._clients)
        self._context, self.certificate, self._refusal = context, certificate, ""
        self._pair = (chain, key, origin, key_origin)
        log.info("certificate in use", origin=origin, expires=str(self.expires))

    def trust_clients(self, authorities: bytes, origin: str) -> None:
        """Take new connections only from clients with a certificate under one of these CAs (PEM).

        Raises CertificateError; who was trusted before then stays.
        """
        try:
            clients = authorities.decode()
            _ask_clients(_server_context(), clients)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{origin} is not a PEM certificate of a CA") from error
        self._clients = clients
        self.tls.verify_mode = ssl.CERT_REQUIRED
        if self._pair is not None:
            context = _loaded(*self._pair)
            _ask_clients(context, clients)
            self._context = context
        log.info("clients need a certificate", origin=origin)

    def refuse(self, why: str) -> None:
        """Count and log, once, that what there is cannot be presented."""
        if why != self._refusal:
            self._refusal = why
            self.refused += 1
            log.error("certificate refused", error=why, in_use_until=str(self.expires or "none"))

    def waiting_for(self) -> list[str]:
        """What is missing, a clause each."""
        if self.certificate is None or self.expires is None:
            return [f"a certificate: {self._refusal or 'there is none yet'}"]
        if self.expires <= self._now():
            why = f" ({self._refusal})" if self._refusal else ""
            return [f"a certificate that is valid: the one in use ended at {self.expires}{why}"]
        return []

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> int | None:
        if self._context is None:
            return NO_CERTIFICATE
        connection.context = self._context
        return None


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _ask_clients(context: ssl.SSLContext, authorities: str) -> None:
    """Whether a client is asked is a matter of the context that the server began with, whom to
    trust one of the context that `Live` chooses, so both are set in each."""
    context.load_verify_locations(cadata=authorities)
    context.verify_mode = ssl.CERT_REQUIRED


def _first(chain: bytes, origin: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(chain)[0]
    except ValueError as error:
        raise CertificateError(f"{origin} is no PEM certificate") from error


def _fits_now(certificate: x509.Certificate, now: datetime, origin: str) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if end <= now:
        raise CertificateError(f"{origin} ended at {end}")
    if begin > now:
        raise CertificateError(f"{origin} begins at {begin} only")


def _loaded(chain: bytes, key: bytes, origin: str, key_origin: str) -> ssl.SSLContext:
    """A context with this pair, which OpenSSL takes from files only."""
    with TemporaryDirectory(prefix="jobflow-tls-") as folder:
        chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, content in ((chain_file, chain), (key_file, key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        return load_pair(chain_file, key_file, origin, key_origin)


def load_pair(chain: Path, key: Path, origin: str, key_origin: str) -> ssl.SSLContext:
    """A new context, TLS 1.2 or newer, with the pair in these files. Raises CertificateError."""
    context = _server_context()
    try:
        # a key that asks for a password gets none, instead of a prompt on the terminal
        context.load_cert_chain(chain, key, password=lambda: b"")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError(f"{key_origin} is not the key of {origin}") from error
        raise CertificateError(
            f"{origin} and {key_origin} are no PEM certificate and unencrypted key: "
            f"{error.reason or error}"
        ) from error
    return context
