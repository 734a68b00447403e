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
        """Read the files every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Use the content of the files if it has changed."""
        try:
            content = self._read()
            # nearly every look finds nothing new
            if content != self._used:
                self._use(content)
                self._used = content
        except CertificateError as error:
            self._live.refuse(str(error))

    def waiting_for(self) -> list[str]:
        """Return why reviews cannot be answered."""
        return self._live.waiting_for()


def watch_certificate(files: CertificateFiles, live: Live) -> Watched[tuple[bytes, bytes]]:
    """Keep the certificate that `live` presents up to date with a pair of files."""
    names = str(files.certificate), str(files.key)
    return Watched(live, files.read, lambda pair: live.put(*pair, *names))


def watch_client_ca(path: Path, live: Live) -> Watched[bytes]:
    """Keep the CAs of clients that `live` accepts up to date with a PEM file."""
    return Watched(live, lambda: _content(path), lambda ca: live.trust_clients(ca, str(path)))


@dataclass(frozen=True, slots=True)
class PkiFiles:
    """The files of a Pki."""

    ca_certificate: Path
    ca_key: Path
    serving: CertificateFiles


def write_development_pki(directory: Path, hosts: Sequence[str]) -> PkiFiles:
    """Write a new `make_pki` as ca.crt, ca.key, tls.crt and tls.key to `directory`, in place of
    existing files. They belong to the owner of the directory, or of the nearest one above it that
    exists, and only that user can read them. Raises CertificateError and OSError."""
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
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        _give(file.fileno(), owner)
        file.write(content)
    return part.replace(path)


def _give(target: Path | int, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:  # others make files of their own
        os.chown(target, *owner)
