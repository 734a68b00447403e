"""A certificate in files that another program writes, reloaded when they change."""

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from jobflow.webhook.certificates.live import Live, load_pair
from jobflow.webhook.certificates.pki import CertificateError, make_pki

_Content = TypeVar("_Content")

LOOK_SECONDS = 5.0
"""Seconds between two reads. A kubelet takes a minute to update a mounted Secret."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate (with its chain) and its key, as PEM files."""

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


class _Watched(Generic[_Content]):
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
        """Read the files every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Use the content of the files if it has changed."""
        try:
            content = self._read()
            if content != self._used:
                self._use(content)
                self._used = content
        except CertificateError as error:
            self._live.refuse(str(error))


class WatchedFiles(_Watched[tuple[bytes, bytes]]):
    """Keeps the certificate that `live` presents up to date with a pair of files."""

    def __init__(self, files: CertificateFiles, live: Live) -> None:
        names = str(files.certificate), str(files.key)
        super().__init__(live, files.read, lambda pair: live.put(*pair, *names))

    def waiting_for(self) -> list[str]:
        """Return why reviews cannot be answered."""
        return self._live.waiting_for()


class WatchedClientCA(_Watched[bytes]):
    """Keeps the CAs of clients that `live` accepts up to date with a PEM file."""

    def __init__(self, path: Path, live: Live) -> None:
        super().__init__(
            live,
            lambda: _content(path),
            lambda authorities: live.trust_clients(authorities, str(path)),
        )


@dataclass(frozen=True, slots=True)
class PkiFiles:
    """The files of a Pki."""

    ca_certificate: Path
    ca_key: Path
    serving: CertificateFiles


def write_development_pki(directory: Path, hosts: Sequence[str]) -> PkiFiles:
    """Write a new `make_pki` as ca.crt, ca.key, tls.crt and tls.key to `directory`, in place of
    existing files. Only their owner can read the keys. Raises CertificateError and OSError."""
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


def _write(path: Path, content: bytes, *, secret: bool = False) -> Path:
    """Write a file atomically; only its owner can read a secret one."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with open(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644), "wb"
    ) as file:
        file.write(content)
    return part.replace(path)
